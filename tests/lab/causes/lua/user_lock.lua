-- One job at a time by a lock of the application's own: GET_LOCK, some work, RELEASE_LOCK. With `commit` the work has
-- one short transaction in place of a read.
sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, work_ms = {"that the lock is held", 10},
   commit = {"a transaction in place of a read", false},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   connection:query("SELECT GET_LOCK('job', 60)")
   local work = sysbench.opt.commit and "UPDATE sbtest1 SET k = k + 1" or "SELECT c FROM sbtest1"
   connection:query(work .. " WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
   connection:query("DO SLEEP(" .. sysbench.opt.work_ms / 1000 .. ")")
   connection:query("SELECT RELEASE_LOCK('job')")
end

function thread_done()
   connection:disconnect()
end
