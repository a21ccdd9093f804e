-- record: how a job's values in Redis are written and read.
--
-- jobs[id], live   entry expire number life flags band window keysize LF key envelope
--     entry        the stream entry that stands for the job; - while it waits in `due`, = and its place behind its
--                  lane, % and its place in its share
--     expire       ms of Redis time from which it must not start any more, or 0
--     number life  publications and redrives of its row
--     flags        - or letters: c cancel requested, d direct (it has no row), p parked, l waits for a limit, w woken
--                  while it was held, x has extras
--     band         0 high, 1 normal, 2 low: which stream it goes to; 3 more while it stands in the front
--     window       ms for which its idempotency key is kept after its end
--     key          keysize bytes; with extras (x): keysize lanesize sharesize policy LF key lane share
-- jobs[id], ended  ! outcome number start life consumer      (a tombstone, until `bury` lets it go)
-- runs[id]         starts attempts losses holder entry lease last, and where a body told of one: LF progress
--     holder entry lease   who holds it, by which entry, for how many ms; - - 0 while nobody does
--     last                 consumer/start of the last accepted finish, or -
--     progress             start, ms of Redis time when it was told, text


-- The end of the window of a key whose job is suspended: nothing of it is in Redis, and it has not ended.
local UNTIL_IT_ENDS = 9000000000000000

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- A time as text: the digits of one beyond the year 5000 are more than Lua writes by itself.
local function digits(ms)
  return string.format('%.0f', ms)
end

-- What a call on a group answered, or an empty list where the group is gone. Every other error is raised: a right
-- that lacks must never look like a queue without jobs.
local function of_group(reply)
  local err = reply and reply.err
  if not err then return reply or {} end
  for _, gone in ipairs({ 'NOGROUP', 'no such key', 'requires the key to exist' }) do
    if string.find(tostring(err), gone, 1, true) then return {} end
  end
  error(tostring(err), 0)
end

local function is_tombstone(rec)
  return string.sub(rec, 1, 1) == '!'
end

-- A record that cannot be read is that of a job which is nowhere: it is replaced or forgotten like one.
local function read_record(rec)
  local entry, expire, number, life, flags, band, window, size, at =
    string.match(rec, '^(%S+) (%d+) (%d+) (%d+) (%S+) ([0-5]) (%d+) (%d+)\n()')
  if not entry then
    entry, expire, number, life, flags, band, window, size, at = '-', '0', 0, 0, '-', 1, 0, 0, #rec + 1
  end
  band = tonumber(band)
  return {
    entry = entry, expire = expire, number = tonumber(number), life = tonumber(life), flags = flags,
    band = band % 3, front = band > 2, window = tonumber(window), size = tonumber(size), text = rec, at = at,
  }
end

local function write_record(r)
  local band = r.front and r.band + 3 or r.band
  return table.concat({ r.entry, r.expire, r.number, r.life, r.flags, band, r.window, r.size }, ' ')
    .. '\n' .. string.sub(r.text, r.at)
end

-- What a region of keysize bytes says of a job with extras.
local function read_extras(region)
  local key, lane, share, policy, at = string.match(region, '^(%d+) (%d+) (%d+) (%S+)\n()')
  if not key then return { key = '', lane = '', share = '', policy = '-' } end
  local lane_at, share_at = at + key, at + key + lane
  return {
    key = string.sub(region, at, lane_at - 1), lane = string.sub(region, lane_at, share_at - 1),
    share = string.sub(region, share_at, share_at + share - 1), policy = policy,
  }
end

local function extras_of(r)
  if not r.extras then r.extras = read_extras(string.sub(r.text, r.at, r.at + r.size - 1)) end
  return r.extras
end

local function write_extras(x)
  return table.concat({ #x.key, #x.lane, #x.share, x.policy }, ' ') .. '\n' .. x.key .. x.lane .. x.share
end

local function policy_of(r)
  return string.find(r.flags, 'x', 1, true) and extras_of(r).policy or '-'
end

local function key_of(r)
  if string.find(r.flags, 'x', 1, true) then return extras_of(r).key end
  return string.sub(r.text, r.at, r.at + r.size - 1)
end

-- Which of the four streams a job's entry is in, or goes to, and its number from 1.
local function stream_of(q, r)
  local n = r.front and 4 or r.band + 1
  return q.ready[n], n
end

-- Does it stand in a stream?
local function has_entry(r)
  return string.find(r.entry, '^%d') ~= nil
end

local function envelope_of(r)
  return string.sub(r.text, r.at + r.size)
end

local function read_tombstone(rec)
  local outcome, number, start, life, consumer = string.match(rec, '^! (%S+) (%d+) (%d+) (%d+) (%S+)')
  return {
    outcome = outcome or '-', number = tonumber(number or 0), start = start, life = tonumber(life or 0),
    consumer = consumer,
  }
end

local function has(flags, letter)
  return string.find(flags, letter, 1, true) ~= nil
end

local function with(flags, letter)
  if has(flags, letter) then return flags end
  return flags == '-' and letter or flags .. letter
end

local function without(flags, letter)
  local rest = string.gsub(flags, letter, '')
  return rest == '' and '-' or rest
end

local function read_run(run)
  local starts, attempts, losses, holder, entry, lease, last, progress =
    string.match(run or '', '^(%d+) (%d+) (%d+) (%S+) (%S+) (%d+) (%S+)(.*)$')
  if not starts then
    return { starts = 0, attempts = 0, losses = 0, holder = '-', entry = '-', lease = 0, last = '-', progress = '' }
  end
  return {
    starts = tonumber(starts), attempts = tonumber(attempts), losses = tonumber(losses),
    holder = holder, entry = entry, lease = tonumber(lease), last = last, progress = progress,
  }
end

local function write_run(r)
  return table.concat({ r.starts, r.attempts, r.losses, r.holder, r.entry, r.lease, r.last }, ' ') .. r.progress
end

-- One command over many items, in pieces that `unpack` can carry; answers the joined replies.
local function in_pieces(command, key, items)
  local all = {}
  for first = 1, #items, 1000 do
    local reply = redis.call(command, key, unpack(items, first, math.min(first + 999, #items)))
    if type(reply) == 'table' then
      for i = 1, #reply do all[#all + 1] = reply[i] end
    end
  end
  return all
end

-- A script whose first write cannot be refused for want of memory is not refused further on:
-- ending work must always be possible, it is what frees memory.
local function even_when_full(key)
  redis.call('HDEL', key, '-')
end
