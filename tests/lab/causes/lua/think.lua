-- Transactions whose client computes for a while before each: it asks for nothing, and holds nothing.
require("ffi").cdef("int usleep(unsigned int);")
local ffi = require("ffi")

sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, think_us = {"before each transaction", 20000},
   statements = {"of a transaction", 5},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   ffi.C.usleep(sysbench.opt.think_us)
   for _ = 1, sysbench.opt.statements do
      local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
      connection:query("SELECT c FROM " .. name .. " WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
   end
end

function thread_done()
   connection:disconnect()
end
