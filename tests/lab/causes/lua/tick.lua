-- All clients come at the same time, once for each tick of the clock, as jobs of a scheduler do.
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int); int gettimeofday(long *now, void *zone);")
local now = ffi.new("long[2]")

sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, tick_ms = {"between ticks", 500},
   statements = {"of a transaction", 5},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   ffi.C.gettimeofday(now, nil)
   local us = tonumber(now[0]) * 1000000 + tonumber(now[1])
   ffi.C.usleep(1000 * sysbench.opt.tick_ms - us % (1000 * sysbench.opt.tick_ms))
   for _ = 1, sysbench.opt.statements do
      local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
      connection:query("SELECT c FROM " .. name .. " WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
   end
end

function thread_done()
   connection:disconnect()
end
