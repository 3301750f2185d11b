-- One job at a time by a lock of the application's own: GET_LOCK, some work, RELEASE_LOCK.
sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, work_ms = {"that the lock is held", 10},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   connection:query("SELECT GET_LOCK('job', 60)")
   connection:query("SELECT c FROM sbtest1 WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
   connection:query("DO SLEEP(" .. sysbench.opt.work_ms / 1000 .. ")")
   connection:query("SELECT RELEASE_LOCK('job')")
end

function thread_done()
   connection:disconnect()
end
