-- A transaction locks one row of a few and thinks before it commits: the client computes, the lock is held.
require("ffi").cdef("int usleep(unsigned int);")
local ffi = require("ffi")

sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, think_ms = {"between update and commit", 20},
   hot = {"rows that are updated", 2},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   connection:query("BEGIN")
   connection:query("UPDATE sbtest1 SET k = k + 1 WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.hot))
   ffi.C.usleep(1000 * sysbench.opt.think_ms)
   connection:query("COMMIT")
end

function thread_done()
   connection:disconnect()
end
