-- Results of some megabytes: a client that does not read keeps the server waiting in the middle of a statement.
sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, result_kib = {"of one result", 2048},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   connection:query("SELECT REPEAT(c, 8) FROM sbtest1 LIMIT " .. sysbench.opt.result_kib)
end

function thread_done()
   connection:disconnect()
end
