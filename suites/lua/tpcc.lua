-- Transactions in the manner of TPC-C, revision 5.11, for sysbench 1.0: prepare, run and cleanup.
--
-- Tables, population (clause 4.3), the five transactions (clause 2) and their mix (clause 5.2.3) are the standard's.
-- What differs: there are no terminals, so no keying and think times; a delivery runs at once; text is shorter where
-- the standard allows a range; a transaction has no retry of its own. So a rate is no tpmC, and results are not to be
-- compared with published ones. The options are those of sysbench-tpcc.

if sysbench.cmdline.command == nil then
   error("A command is needed: prepare, run, cleanup or help")
end

sysbench.cmdline.options = {
   scale = {"Warehouses in each set of tables", 10},
   tables = {"Sets of tables", 1},
   trx_level = {"Isolation level: RC, RR or SER", "RR"},
}

local ITEMS, DISTRICTS, CUSTOMERS, ORDERS, UNDELIVERED = 100000, 10, 3000, 3000, 900
local LEVELS = {RC = "READ COMMITTED", RR = "REPEATABLE READ", SER = "SERIALIZABLE"}
local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}
local ROWS_IN_INSERT = 500
-- Constants of NURand (clause 2.1.6); those of the load and of the run differ as clause 2.1.6.1 asks: by 65 to 119,
-- but not by 96 or 112.
local C_LAST_OF_LOAD, C_LAST_OF_RUN, C_CUSTOMER, C_ITEM = 157, 223, 259, 7911

local uniform, text = sysbench.rand.uniform, sysbench.rand.string
local driver, connection

local function nurand(a, c, low, high)
   return (bit.bor(uniform(0, a), uniform(low, high)) + c) % (high - low + 1) + low
end

local function last_name(number)
   return SYLLABLES[math.floor(number / 100) + 1] .. SYLLABLES[math.floor(number / 10) % 10 + 1] .. SYLLABLES[number % 10 + 1]
end

local function letters(low, high)
   return text(string.rep("@", uniform(low, high)))
end

-- Data of an item or of stock: every tenth one has ORIGINAL somewhere in it (clause 4.3.3.1).
local function data_text()
   local data = letters(26, 50)
   if uniform(1, 10) > 1 then
      return data
   end
   local place = uniform(1, #data - 8)
   return data:sub(1, place) .. "ORIGINAL" .. data:sub(place + 9)
end

local function zip()
   return text("####") .. "11111"
end

local function address()
   return string.format("'%s','%s','%s','%s','%s'", letters(10, 20), letters(10, 20), letters(10, 20), text("@@"), zip())
end

-- Collects rows and inserts many at once; `close` inserts the rest.
local function rows_of(table_name, columns)
   local rows = {}
   local head = string.format("INSERT INTO %s (%s) VALUES ", table_name, columns)
   local function flush()
      if #rows > 0 then
         connection:query(head .. table.concat(rows, ","))
         rows = {}
      end
   end
   return function(format, ...)
      rows[#rows + 1] = string.format("(" .. format .. ")", ...)
      if #rows >= ROWS_IN_INSERT then
         flush()
      end
   end, flush
end

-- Numbers 1 to `count` in random order.
local function permutation(count)
   local numbers = {}
   for i = 1, count do
      local place = uniform(1, i)
      numbers[i] = numbers[place]
      numbers[place] = i
   end
   return numbers
end

local TABLES = {
   {"warehouse", [[w_id INT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_street_2 VARCHAR(20),
      w_city VARCHAR(20), w_state CHAR(2), w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2), PRIMARY KEY (w_id)]]},
   {"district", [[d_id TINYINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20),
      d_street_2 VARCHAR(20), d_city VARCHAR(20), d_state CHAR(2), d_zip CHAR(9), d_tax DECIMAL(4,4),
      d_ytd DECIMAL(12,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)]]},
   {"customer", [[c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16),
      c_middle CHAR(2), c_last VARCHAR(16), c_street_1 VARCHAR(20), c_street_2 VARCHAR(20), c_city VARCHAR(20),
      c_state CHAR(2), c_zip CHAR(9), c_phone CHAR(16), c_since DATETIME, c_credit CHAR(2), c_credit_lim DECIMAL(12,2),
      c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt SMALLINT,
      c_delivery_cnt SMALLINT, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id),
      KEY c_by_name (c_w_id, c_d_id, c_last, c_first)]]},
   {"history", [[h_id BIGINT NOT NULL AUTO_INCREMENT, h_c_id INT, h_c_d_id TINYINT, h_c_w_id INT, h_d_id TINYINT, h_w_id INT,
      h_date DATETIME, h_amount DECIMAL(6,2), h_data VARCHAR(24), PRIMARY KEY (h_id)]]},
   {"orders", [[o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT, o_entry_d DATETIME,
      o_carrier_id TINYINT, o_ol_cnt TINYINT, o_all_local TINYINT, PRIMARY KEY (o_w_id, o_d_id, o_id),
      KEY o_by_customer (o_w_id, o_d_id, o_c_id, o_id)]]},
   {"new_orders", [[no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id INT NOT NULL,
      PRIMARY KEY (no_w_id, no_d_id, no_o_id)]]},
   {"order_line", [[ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id INT NOT NULL, ol_number TINYINT NOT NULL,
      ol_i_id INT, ol_supply_w_id INT, ol_delivery_d DATETIME, ol_quantity TINYINT, ol_amount DECIMAL(6,2),
      ol_dist_info CHAR(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)]]},
   {"item", [[i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50), PRIMARY KEY (i_id)]]},
   {"stock", [[s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT, s_dist_01 CHAR(24), s_dist_02 CHAR(24),
      s_dist_03 CHAR(24), s_dist_04 CHAR(24), s_dist_05 CHAR(24), s_dist_06 CHAR(24), s_dist_07 CHAR(24), s_dist_08 CHAR(24),
      s_dist_09 CHAR(24), s_dist_10 CHAR(24), s_ytd INT, s_order_cnt INT, s_remote_cnt INT, s_data VARCHAR(50),
      PRIMARY KEY (s_w_id, s_i_id)]]},
}

local function connect()
   driver = sysbench.sql.driver()
   connection = driver:connect()
end

local function load_items(set)
   local insert, close = rows_of("item" .. set, "i_id, i_im_id, i_name, i_price, i_data")
   for id = 1, ITEMS do
      insert("%d,%d,'%s',%.2f,'%s'", id, uniform(1, 10000), letters(14, 24), uniform(100, 10000) / 100, data_text())
   end
   close()
end

local function load_stock(set, warehouse)
   local insert, close = rows_of("stock" .. set, "s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, "
      .. "s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data")
   local infos = string.rep("'" .. string.rep("@", 24) .. "'", DISTRICTS, ",")
   for id = 1, ITEMS do
      insert("%d,%d,%d,%s,0,0,0,'%s'", id, warehouse, uniform(10, 100), text(infos), data_text())
   end
   close()
end

local function load_customers(set, warehouse, district)
   local insert, close = rows_of("customer" .. set, "c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, "
      .. "c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, "
      .. "c_payment_cnt, c_delivery_cnt, c_data")
   local pay, close_history = rows_of("history" .. set, "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data")
   for id = 1, CUSTOMERS do
      local name = last_name(id <= 1000 and id - 1 or nurand(255, C_LAST_OF_LOAD, 0, 999))
      insert("%d,%d,%d,'%s','OE','%s',%s,'%s',NOW(),'%s',50000,%.4f,-10,10,1,0,'%s'", id, district, warehouse, letters(8, 16),
         name, address(), text("################"), uniform(1, 10) == 1 and "BC" or "GC", uniform(0, 5000) / 10000,
         letters(300, 500))
      pay("%d,%d,%d,%d,%d,NOW(),10,'%s'", id, district, warehouse, district, warehouse, letters(12, 24))
   end
   close()
   close_history()
end

local function load_orders(set, warehouse, district)
   local order, close_orders = rows_of("orders" .. set, "o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local")
   local new, close_new = rows_of("new_orders" .. set, "no_o_id, no_d_id, no_w_id")
   local line, close_lines = rows_of("order_line" .. set, "ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, "
      .. "ol_delivery_d, ol_quantity, ol_amount, ol_dist_info")
   local customers = permutation(CUSTOMERS)
   for id = 1, ORDERS do
      local delivered, lines = id <= ORDERS - UNDELIVERED, uniform(5, 15)
      order("%d,%d,%d,%d,NOW(),%s,%d,1", id, district, warehouse, customers[id], delivered and uniform(1, 10) or "NULL", lines)
      if not delivered then
         new("%d,%d,%d", id, district, warehouse)
      end
      for number = 1, lines do
         line("%d,%d,%d,%d,%d,%d,%s,5,%.2f,'%s'", id, district, warehouse, number, uniform(1, ITEMS), warehouse,
            delivered and "NOW()" or "NULL", delivered and 0 or uniform(1, 999999) / 100, text(string.rep("@", 24)))
      end
   end
   close_orders()
   close_new()
   close_lines()
end

local function load_warehouse(set, warehouse)
   connection:query(string.format("INSERT INTO warehouse%d VALUES (%d,'%s',%s,%.4f,300000)", set, warehouse, letters(6, 10),
      address(), uniform(0, 2000) / 10000))
   load_stock(set, warehouse)
   for district = 1, DISTRICTS do
      connection:query(string.format("INSERT INTO district%d VALUES (%d,%d,'%s',%s,%.4f,30000,%d)", set, district, warehouse,
         letters(6, 10), address(), uniform(0, 2000) / 10000, ORDERS + 1))
      load_customers(set, warehouse, district)
      load_orders(set, warehouse, district)
   end
end

-- Every thread makes all tables, so that none waits for another; then each loads its share of the warehouses.
function prepare()
   connect()
   for set = 1, sysbench.opt.tables do
      for _, definition in ipairs(TABLES) do
         connection:query(string.format("CREATE TABLE IF NOT EXISTS %s%d (%s) ENGINE=InnoDB", definition[1], set, definition[2]))
      end
   end
   local part = 0
   for set = 1, sysbench.opt.tables do
      for warehouse = 0, sysbench.opt.scale do
         if part % sysbench.opt.threads == sysbench.tid then
            print(warehouse == 0 and string.format("Loading items of set %d", set)
               or string.format("Loading warehouse %d of set %d", warehouse, set))
            if warehouse == 0 then
               load_items(set)
            else
               load_warehouse(set, warehouse)
            end
         end
         part = part + 1
      end
   end
end

function cleanup()
   connect()
   for set = 1, sysbench.opt.tables do
      for _, definition in ipairs(TABLES) do
         connection:query("DROP TABLE IF EXISTS " .. definition[1] .. set)
      end
   end
end

sysbench.cmdline.commands = {
   prepare = {prepare, sysbench.cmdline.PARALLEL_COMMAND},
   cleanup = {cleanup},
}

function thread_init()
   connect()
   local level = LEVELS[sysbench.opt.trx_level]
   if level == nil then
      error("--trx_level is RC, RR or SER, not " .. tostring(sysbench.opt.trx_level))
   end
   connection:query("SET SESSION TRANSACTION ISOLATION LEVEL " .. level)
end

function thread_done()
   connection:disconnect()
end

-- A deadlock ends the transaction, a lock wait that timed out only its statement: what is left of it is taken back.
function sysbench.hooks.before_restart_event()
   connection:query("ROLLBACK")
end

-- Run a statement with its values.
local function run(format, ...)
   return connection:query(string.format(format, ...))
end

-- The values of the one row of a query. An error for none.
local function row(format, ...)
   local query = string.format(format, ...)
   local values = {connection:query_row(query)}
   if values[1] == nil then
      error("no row: " .. query)
   end
   return unpack(values)
end

local function other_warehouse(warehouse)
   if sysbench.opt.scale == 1 then
      return warehouse
   end
   local other = uniform(1, sysbench.opt.scale - 1)
   return other < warehouse and other or other + 1
end

-- The number of a customer by number (40 %) or by last name (60 %): of those of one name the one in the middle.
local function customer_of(set, warehouse, district)
   if uniform(1, 100) > 60 then
      return nurand(1023, C_CUSTOMER, 1, CUSTOMERS)
   end
   local name = last_name(nurand(255, C_LAST_OF_RUN, 0, 999))
   local found = run("SELECT c_id FROM customer%d WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first", set,
      warehouse, district, name)
   if found.nrows == 0 then
      return nurand(1023, C_CUSTOMER, 1, CUSTOMERS) -- a load that is smaller than the standard's
   end
   local id
   for _ = 1, math.ceil(found.nrows / 2) do
      id = found:fetch_row()[1]
   end
   found:free()
   return tonumber(id)
end

local function new_order(set, warehouse)
   local district, customer, count = uniform(1, DISTRICTS), nurand(1023, C_CUSTOMER, 1, CUSTOMERS), uniform(5, 15)
   local unknown_item = uniform(1, 100) == 1
   local lines, all_local = {}, 1
   for number = 1, count do
      local item = nurand(8191, C_ITEM, 1, ITEMS)
      local supplier = uniform(1, 100) == 1 and other_warehouse(warehouse) or warehouse
      all_local = supplier == warehouse and all_local or 0
      lines[number] = {item = unknown_item and number == count and ITEMS + 1 or item, supplier = supplier, quantity = uniform(1, 10)}
   end
   run("BEGIN")
   row("SELECT w_tax, c_discount, c_last, c_credit FROM warehouse%d, customer%d WHERE w_id = %d AND c_w_id = w_id"
      .. " AND c_d_id = %d AND c_id = %d", set, set, warehouse, district, customer)
   local order = tonumber((row("SELECT d_next_o_id, d_tax FROM district%d WHERE d_w_id = %d AND d_id = %d FOR UPDATE", set,
      warehouse, district)))
   run("UPDATE district%d SET d_next_o_id = %d WHERE d_w_id = %d AND d_id = %d", set, order + 1, warehouse, district)
   run("INSERT INTO orders%d VALUES (%d,%d,%d,%d,NOW(),NULL,%d,%d)", set, order, district, warehouse, customer, count, all_local)
   run("INSERT INTO new_orders%d VALUES (%d,%d,%d)", set, order, district, warehouse)
   for number, line in ipairs(lines) do
      local price = connection:query_row(string.format("SELECT i_price, i_name, i_data FROM item%d WHERE i_id = %d", set, line.item))
      if price == nil then
         run("ROLLBACK") -- the order of an unknown item is one of a hundred, and counts (clause 2.4.1.4)
         return
      end
      local quantity, info = row("SELECT s_quantity, s_dist_%02d, s_data FROM stock%d WHERE s_i_id = %d AND s_w_id = %d FOR UPDATE",
         district, set, line.item, line.supplier)
      quantity = tonumber(quantity) - line.quantity
      quantity = quantity < 10 and quantity + 91 or quantity
      run("UPDATE stock%d SET s_quantity = %d, s_ytd = s_ytd + %d, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + %d"
         .. " WHERE s_i_id = %d AND s_w_id = %d", set, quantity, line.quantity, line.supplier == warehouse and 0 or 1, line.item,
         line.supplier)
      run("INSERT INTO order_line%d VALUES (%d,%d,%d,%d,%d,%d,NULL,%d,%.2f,'%s')", set, order, district, warehouse, number, line.item,
         line.supplier, line.quantity, line.quantity * tonumber(price), info)
   end
   run("COMMIT")
end

local function payment(set, warehouse)
   local district, amount = uniform(1, DISTRICTS), uniform(100, 500000) / 100
   local customer_warehouse, customer_district = warehouse, district
   if uniform(1, 100) > 85 then
      customer_warehouse, customer_district = other_warehouse(warehouse), uniform(1, DISTRICTS)
   end
   run("BEGIN")
   run("UPDATE warehouse%d SET w_ytd = w_ytd + %.2f WHERE w_id = %d", set, amount, warehouse)
   local warehouse_name = row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse%d WHERE w_id = %d", set,
      warehouse)
   run("UPDATE district%d SET d_ytd = d_ytd + %.2f WHERE d_w_id = %d AND d_id = %d", set, amount, warehouse, district)
   local district_name = row("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district%d WHERE d_w_id = %d"
      .. " AND d_id = %d", set, warehouse, district)
   local customer = customer_of(set, customer_warehouse, customer_district)
   local credit = row("SELECT c_credit, c_balance, c_discount, c_first, c_last, c_since FROM customer%d WHERE c_w_id = %d"
      .. " AND c_d_id = %d AND c_id = %d FOR UPDATE", set, customer_warehouse, customer_district, customer)
   local data = ""
   if credit == "BC" then
      data = string.format(", c_data = LEFT(CONCAT('%d %d %d %d %d %.2f|', c_data), 500)", customer, customer_district,
         customer_warehouse, district, warehouse, amount)
   end
   run("UPDATE customer%d SET c_balance = c_balance - %.2f, c_ytd_payment = c_ytd_payment + %.2f, c_payment_cnt = c_payment_cnt + 1%s"
      .. " WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", set, amount, amount, data, customer_warehouse, customer_district, customer)
   run("INSERT INTO history%d (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)"
      .. " VALUES (%d,%d,%d,%d,%d,NOW(),%.2f,'%s    %s')", set, customer, customer_district, customer_warehouse, district, warehouse,
      amount, warehouse_name, district_name)
   run("COMMIT")
end

local function order_status(set, warehouse)
   local district = uniform(1, DISTRICTS)
   run("BEGIN")
   local customer = customer_of(set, warehouse, district)
   row("SELECT c_balance, c_first, c_middle, c_last FROM customer%d WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", set, warehouse,
      district, customer)
   local order = connection:query_row(string.format("SELECT o_id, o_carrier_id, o_entry_d FROM orders%d WHERE o_w_id = %d"
      .. " AND o_d_id = %d AND o_c_id = %d ORDER BY o_id DESC LIMIT 1", set, warehouse, district, customer))
   if order ~= nil then
      run("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line%d WHERE ol_w_id = %d"
         .. " AND ol_d_id = %d AND ol_o_id = %d", set, warehouse, district, order):free()
   end
   run("COMMIT")
end

local function delivery(set, warehouse)
   local carrier = uniform(1, 10)
   run("BEGIN")
   for district = 1, DISTRICTS do
      local order = connection:query_row(string.format("SELECT no_o_id FROM new_orders%d WHERE no_w_id = %d AND no_d_id = %d"
         .. " ORDER BY no_o_id LIMIT 1 FOR UPDATE", set, warehouse, district))
      if order ~= nil then
         run("DELETE FROM new_orders%d WHERE no_w_id = %d AND no_d_id = %d AND no_o_id = %d", set, warehouse, district, order)
         local customer = row("SELECT o_c_id FROM orders%d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d", set, warehouse, district,
            order)
         run("UPDATE orders%d SET o_carrier_id = %d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d", set, carrier, warehouse, district,
            order)
         run("UPDATE order_line%d SET ol_delivery_d = NOW() WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", set, warehouse,
            district, order)
         local amount = row("SELECT SUM(ol_amount) FROM order_line%d WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", set,
            warehouse, district, order)
         run("UPDATE customer%d SET c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = %d AND c_d_id = %d"
            .. " AND c_id = %d", set, amount, warehouse, district, customer)
      end
   end
   run("COMMIT")
end

local function stock_level(set, warehouse)
   local district, threshold = uniform(1, DISTRICTS), uniform(10, 20)
   run("BEGIN")
   local next_order = tonumber((row("SELECT d_next_o_id FROM district%d WHERE d_w_id = %d AND d_id = %d", set, warehouse, district)))
   row("SELECT COUNT(DISTINCT s_i_id) FROM order_line%d, stock%d WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id < %d AND ol_o_id >= %d"
      .. " AND s_w_id = ol_w_id AND s_i_id = ol_i_id AND s_quantity < %d", set, set, warehouse, district, next_order, next_order - 20,
      threshold)
   run("COMMIT")
end

-- The mix of clause 5.2.3, with the least shares of all but the new order.
function event()
   local set, warehouse, choice = uniform(1, sysbench.opt.tables), uniform(1, sysbench.opt.scale), uniform(1, 100)
   if choice <= 45 then
      new_order(set, warehouse)
   elseif choice <= 88 then
      payment(set, warehouse)
   elseif choice <= 92 then
      order_status(set, warehouse)
   elseif choice <= 96 then
      delivery(set, warehouse)
   else
      stock_level(set, warehouse)
   end
end
