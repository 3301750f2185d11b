-- Queries with intermediate results, which a server with little room for them keeps in files.
sysbench.cmdline.options = {tables = {"tables", 1}, table_size = {"rows of each", 10000}, rows = {"of a query", 500}}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   local first = sysbench.rand.uniform(1, sysbench.opt.table_size - sysbench.opt.rows)
   local rows = " WHERE id BETWEEN " .. first .. " AND " .. first + sysbench.opt.rows
   local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
   connection:query("SELECT COUNT(*) FROM (SELECT DISTINCT c, pad FROM " .. name .. rows .. ") AS different")
end

function thread_done()
   connection:disconnect()
end
