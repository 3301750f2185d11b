-- sysbench's OLTP tables with values that compress as real data do, instead of random digits.
--
-- Each value begins with random characters out of 64, which compress to 3/4, and ends in text that every value has in common.
-- How many are random follows from `compress_to`: what zlib (level 6) makes of pages of 16 KiB full of such values, relative
-- to their size. Fitted: 0.035 + 0.746 x the random share, within 0.04 from 0.05 to 0.75 (tests/integration).
-- A transaction is 10 point selects and, with `updates`, updates of `c` with new values that compress as well.

require("oltp_common")

sysbench.cmdline.options.compress_to = {"Size that zlib leaves of the values, 0.05 to 0.75", 0.33}
sysbench.cmdline.options.page_compression = {"Tables with InnoDB's page compression: on or off", "off"}
sysbench.cmdline.options.updates = {"Updates of c in a transaction", 1}

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
local TEXT = string.rep("the customer order was shipped from our main store and paid by card on time, as agreed with the"
   .. " sales team in the last week ", 2)
local C_LENGTH, PAD_LENGTH = 119, 59
local bytes = {ALPHABET:byte(1, -1)}

local function value(length)
   local random = math.floor(length * (sysbench.opt.compress_to - 0.035) / 0.746 + 0.5)
   random = math.max(0, math.min(length, random))
   local codes = {}
   for at = 1, random do
      codes[at] = bytes[sysbench.rand.uniform(1, 64)]
   end
   local head = random > 0 and string.char(unpack(codes)) or ""
   return head .. TEXT:sub(1, length - random)
end

function get_c_value()
   return value(C_LENGTH)
end

function get_pad_value()
   return value(PAD_LENGTH)
end

local function check_options()
   local compress_to = sysbench.opt.compress_to
   if compress_to < 0.05 or compress_to > 0.75 then
      error("compress_to=" .. compress_to .. ": text of 64 characters compresses to 0.05 to 0.75")
   end
   local page_compression = sysbench.opt.page_compression
   if page_compression ~= "on" and page_compression ~= "off" then
      error("page_compression=" .. page_compression .. ": on or off")
   end
end

local plain_create_table = create_table

function create_table(drv, con, table_num)
   check_options()
   if sysbench.opt.page_compression == "on" then
      local version = con:query_row("SELECT VERSION()")
      mysql_table_options = version:find("MariaDB") and "PAGE_COMPRESSED=1" or "COMPRESSION='zlib'"
   end
   plain_create_table(drv, con, table_num)
end

function prepare_statements()
   check_options()
   prepare_begin()
   prepare_commit()
   prepare_point_selects()
end

function event()
   begin()
   execute_point_selects()
   for _ = 1, sysbench.opt.updates do
      local table_num = sysbench.rand.uniform(1, sysbench.opt.tables)
      local id = sysbench.rand.default(1, sysbench.opt.table_size)
      con:query(string.format("UPDATE sbtest%d SET c = '%s' WHERE id = %d", table_num, get_c_value(), id))
   end
   commit()
end
