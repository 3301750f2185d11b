-- One job at a time by a lock of the application's own, with one short transaction in it: most of the time it waits
-- for something else than the database.
sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, work_ms = {"that the lock is held", 60},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   connection:query("SELECT GET_LOCK('job', 60)")
   connection:query("UPDATE sbtest1 SET k = k + 1 WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
   connection:query("DO SLEEP(" .. sysbench.opt.work_ms / 1000 .. ")")
   connection:query("SELECT RELEASE_LOCK('job')")
end

function thread_done()
   connection:disconnect()
end
