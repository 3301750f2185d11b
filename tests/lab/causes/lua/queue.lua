-- A table as a queue: take the first row, add one at the end. Rows that were taken and not purged are read again.
sysbench.cmdline.options = {tables = {"tables", 1}, table_size = {"rows of each", 10000}}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   local name = "sbtest" .. (sysbench.tid % sysbench.opt.tables + 1)
   local first = connection:query_row("SELECT id FROM " .. name .. " ORDER BY id LIMIT 1")
   connection:query("DELETE FROM " .. name .. " WHERE id = " .. first)
   connection:query("INSERT INTO " .. name .. " (k, c, pad) VALUES (1, 'c', 'p')")
end

function thread_done()
   connection:disconnect()
end
