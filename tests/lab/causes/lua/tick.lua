-- All clients come at the same time, once for each tick of the clock, as jobs of a scheduler do.
require("ffi").cdef([[
   int usleep(unsigned int);
   typedef struct { long s; long ns; } volbench_time;
   int clock_gettime(int clock, volbench_time *time);
]])
local ffi = require("ffi")
local now = ffi.new("volbench_time")

sysbench.cmdline.options = {
   tables = {"tables", 1}, table_size = {"rows of each", 10000}, tick_ms = {"between ticks", 500},
   statements = {"of a transaction", 5},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   ffi.C.clock_gettime(1, now)
   local us = tonumber(now.s) * 1000000 + tonumber(now.ns) / 1000
   ffi.C.usleep(1000 * sysbench.opt.tick_ms - us % (1000 * sysbench.opt.tick_ms))
   for _ = 1, sysbench.opt.statements do
      local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
      connection:query("SELECT c FROM " .. name .. " WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
   end
end

function thread_done()
   connection:disconnect()
end
