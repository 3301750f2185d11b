-- Runs one of sysbench's bundled tests, or the user's own script, and reports every interval's full latency histogram, one JSON line each.
--
-- The test is named by the environment variable VOLBENCH_SYSBENCH_TEST, since a script must load its test before
-- sysbench parses the options that the test defines. Lines start with "volbench " and are read by
-- volbench/workload/oltp/sysbench.py; everything else on stdout is sysbench's own.
--
-- sysbench 1.0.20 keeps latencies in a C histogram, `sb_latency_histogram`. Right before it calls the report hook
-- it merges the workers' slots into `cumulative_array`, and only the reporting thread ever does so: the array is
-- still while the hook runs, and its difference to the last call is the interval's histogram.

local test = assert(os.getenv("VOLBENCH_SYSBENCH_TEST"), "VOLBENCH_SYSBENCH_TEST names no test")
if test:match("%.lua$") then
   -- The user's own script, with the modules beside it; its reports are replaced by ours below.
   package.path = (test:match("^(.*)/[^/]*$") or ".") .. "/?.lua;" .. package.path
   dofile(test)
else
   require(test)
end

local ffi = require("ffi")
ffi.cdef [[
typedef struct {
  uint64_t *cumulative_array; uint64_t cumulative_nevents; uint64_t *temp_array; uint64_t **interm_slots;
  size_t array_size; double range_min, range_max, range_deduct, range_mult;
} volbench_histogram;
extern volbench_histogram sb_latency_histogram;
typedef struct { long tv_sec; long tv_nsec; } volbench_timespec;
int clock_gettime(int clock, volbench_timespec *now);
int pthread_setcancelstate(int state, int *before);
]]

local CLOCK_MONOTONIC = 1
local PTHREAD_CANCEL_DISABLE = 1
local cancel_state = ffi.new("int[1]")
local now = ffi.new("volbench_timespec")
local previous = nil -- cumulative counts at the last call
local previous_events = 0

-- Nanoseconds of CLOCK_MONOTONIC as a string of digits: a Lua number is a double and would round them.
local function monotonic_ns()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, now)
   return string.format("%d%09d", tonumber(now.tv_sec), tonumber(now.tv_nsec))
end

-- The bins that grew since the last call, as "bin,count" pairs in one JSON list, and how many events they hold.
local function interval_bins(histogram)
   local size = tonumber(histogram.array_size)
   if previous == nil then
      previous = ffi.new("uint64_t[?]", size)
   end
   local pairs_text, events, all = {}, 0, 0
   for i = 0, size - 1 do
      local grown = tonumber(histogram.cumulative_array[i] - previous[i])
      if grown > 0 then
         pairs_text[#pairs_text + 1] = string.format("%d,%d", i, grown)
         events = events + grown
      end
      previous[i] = histogram.cumulative_array[i]
      all = all + tonumber(previous[i])
   end
   assert(all == tonumber(histogram.cumulative_nevents), "latency bins do not add up to the events they count")
   assert(all - previous_events == events, "a latency bin shrank")
   previous_events = all
   return table.concat(pairs_text, ","), events
end

local function report_interval(stat)
   local at = monotonic_ns()
   local histogram = ffi.C.sb_latency_histogram
   local bins, events = interval_bins(histogram)
   io.write(string.format(
      'volbench {"kind":"interval","monotonic_ns":%s,"time_total_s":%.9f,"time_interval_s":%.9f,' ..
      '"threads_running":%d,"events":%d,"counted":%d,"reads":%d,"writes":%d,"other":%d,"errors":%d,' ..
      '"reconnects":%d,"queue_length":%d,"concurrency":%d,"mult":%.17g,"deduct":%.17g,"size":%d,"bins":[%s]}\n',
      at, stat.time_total, stat.time_interval,
      stat.threads_running, events, stat.events, stat.reads, stat.writes, stat.other, stat.errors,
      stat.reconnects, stat.queue_length or 0, stat.concurrency or 0,
      histogram.range_mult, histogram.range_deduct, tonumber(histogram.array_size), bins))
   io.flush()
end

-- When its time is up, sysbench cancels the thread that reports. Writing is where a cancelled thread ends, and glibc
-- calls abort() when it meets compiled Lua on the way out of it. So nothing ends here, but in the sleep that follows.
function sysbench.hooks.report_intermediate(stat)
   ffi.C.pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel_state)
   local ok, failure = pcall(report_interval, stat)
   ffi.C.pthread_setcancelstate(cancel_state[0], nil)
   if not ok then
      error(failure, 0)
   end
end

function sysbench.hooks.report_cumulative(stat)
   io.write(string.format(
      'volbench {"kind":"total","monotonic_ns":%s,"time_total_s":%.9f,"counted":%d,"errors":%d,' ..
      '"reconnects":%d,"latency_max_s":%.9f}\n',
      monotonic_ns(), stat.time_total, stat.events, stat.errors, stat.reconnects, stat.latency_max))
   io.flush()
end
