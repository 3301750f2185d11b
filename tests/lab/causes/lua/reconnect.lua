-- Each event opens a connection, asks for one row and closes it, as applications without a connection pool do.
sysbench.cmdline.options = {tables = {"tables", 1}, table_size = {"rows of each", 10000}}

local driver

function thread_init()
   driver = sysbench.sql.driver()
end

function event()
   local connection = driver:connect()
   local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
   connection:query("SELECT c FROM " .. name .. " WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
   connection:disconnect()
end

function thread_done()
end
