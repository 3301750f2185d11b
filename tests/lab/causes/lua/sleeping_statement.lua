-- Statements that sleep, as those of jobs that poll, or of stored programs that wait.
sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, sleep_us = {"of each statement", 20000},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
   local row = " FROM " .. name .. " WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size)
   connection:query("SELECT c, SLEEP(" .. sysbench.opt.sleep_us / 1000000 .. ")" .. row)
end

function thread_done()
   connection:disconnect()
end
