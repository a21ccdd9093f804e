-- take: reads waiting entries, as many as there are free slots, and begins them.
--
-- KEYS    life     paused
--         jobs     job id -> record
--         runs     job id -> attempts
--         ready    the four streams: high, normal, low, front
--         shares   who waits in a share; ring: whose turn it is
-- ARGV    consumer who takes them
--         lease    ms from now, and from each renewal, for which they are the consumer's
--         count    at most so many
--         order    the bands in the order in which to read them, such as 012
-- Reply   {paused}, or {ok, then for each delivery: entry, id, band, record, starts, attempts, losses, expired}
-- Cost    O(count); of jobs with a share O(log) each
-- uses lib/record.lua lib/deliver.lua lib/turns.lua
local life, jobs, runs, ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local consumer, lease, count, order = unpack(ARGV, 1, 4)

local known = redis.call('HMGET', life, 'paused', 'shares_paused')
if known[1] == '1' then return { 'paused' } end
local q = {
  life = life, jobs = jobs, runs = runs, ready = { ready0, ready1, ready2, ready3 }, shares = shares, ring = ring,
  stopped = known[2],
}
even_when_full(life)
local found, shared, spare = {}, redis.call('ZCARD', ring) > 0, false

local function read(band, room)
  local new = read_new(q.ready[band + 1], consumer, room)
  for _, item in ipairs(new) do found[#found + 1] = { band, item[1], item[2][2] } end
  return #new
end

for digit in string.gmatch(order, '%d') do
  local band, room = tonumber(digit), tonumber(count) - #found
  if room > 0 and shared and band < 3 then
    -- one more than is wanted, for whoever waits for an entry
    local plain = 0
    local fed = feed(q, band, room + 1, function(n)
      local new = plain < room and read(band, math.min(n, room - plain)) or 0
      plain = plain + new
      return new
    end)
    spare = spare or fed > room - plain
    if fed > 0 and room > plain then read(3, math.min(fed, room - plain)) end
  elseif room > 0 then
    read(band, room)
  end
end
local reply = deliver(q, found, consumer, lease, false)
if shared and not spare then prime(q, string.find(order, '2.*0') ~= nil) end
return reply
