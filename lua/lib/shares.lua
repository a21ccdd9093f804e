-- shares: jobs with a share wait in it. The shares of a queue have their turns; what has its turn goes to the front.
--
-- shares  score 0, members: share NUL band seq id (16 digits, 16 bytes): who waits, in order
-- ring    band and share -> its turn: band * LAP + a time of its own, which each job moves on by STEP / weight. The
--         least one is next. A share that was idle joins behind the least, so that it has saved up nothing; one that
--         has run out stays until its turn comes, so that nobody gains by coming and going. Paused ones are not there.
--         The share '' is the stream of the band: its jobs, which have no share, are one more in the ring.
-- life    share:NAME -> weight, and `paused` if it is; shares_paused how many are; joined the last seq
-- uses lib/record.lua

local LAP = 2 ^ 51
local STEP = 1000
local FIRST = string.rep('0', 16)

local function read_rule(text)
  local weight, state = string.match(text or '', '^(%S+) ?(%S*)$')
  return { step = math.max(1, math.floor(STEP / (tonumber(weight) or 1) + 0.5)), paused = state == 'paused' }
end

-- Reads the rules of several shares at once.
local function learn_rules(q, shares)
  if q.rules == nil then q.rules = {} end
  local unknown, fields = {}, {}
  for _, share in ipairs(shares) do
    if q.rules[share] == nil then
      unknown[#unknown + 1], fields[#fields + 1] = share, 'share:' .. share
    end
  end
  local texts = in_pieces('HMGET', q.life, fields)
  for i, share in ipairs(unknown) do q.rules[share] = read_rule(texts[i]) end
end

local function rule_of(q, share)
  if q.rules == nil or q.rules[share] == nil then learn_rules(q, { share }) end
  return q.rules[share]
end

-- The first of a band in the ring, at most so many: share and turn alternate.
local function first_in_ring(q, band, count)
  local low, high = digits(band * LAP), digits((band + 1) * LAP)
  return redis.call('ZRANGEBYSCORE', q.ring, low, '(' .. high, 'WITHSCORES', 'LIMIT', 0, count)
end

local function enter_ring(q, band, share)
  if rule_of(q, share).paused then return end
  local least = tonumber(first_in_ring(q, band, 1)[2] or band * LAP)
  redis.call('ZADD', q.ring, 'NX', digits(least + 1), band .. share)
end

-- The job waits in its share, as its last one or, having had its turn once, as one of the first. Answers its entry.
local function join_share(q, id, share, band, first)
  local seq = FIRST
  if not first then
    if not q.seq then
      local t = redis.call('TIME')
      q.seq = math.max(tonumber(redis.call('HGET', q.life, 'joined') or 0), t[1] * 1000000 + t[2])
    end
    q.seq = q.seq + 1
    seq = string.format('%016.0f', q.seq) -- `prime` writes down the last one
  end
  redis.call('ZADD', q.shares, 0, share .. '\0' .. band .. seq .. id)
  if q.joined == nil then q.joined = {} end
  if not q.joined[band .. share] then
    q.joined[band .. share] = true
    enter_ring(q, band, share)
  end
  return '%' .. seq
end

local function is_in_share(r)
  return string.sub(r.entry, 1, 1) == '%'
end

local function share_member(id, r)
  return extras_of(r).share .. '\0' .. r.band .. string.sub(r.entry, 2) .. id
end

-- It stands in its share, and that is in the ring, or paused.
local function has_place_in_share(q, id, r)
  if not redis.call('ZSCORE', q.shares, share_member(id, r)) then return false end
  local share = extras_of(r).share
  return redis.call('ZSCORE', q.ring, r.band .. share) ~= false or rule_of(q, share).paused
end

local function leave_share(q, id, r)
  if is_in_share(r) then redis.call('ZREM', q.shares, share_member(id, r)) end
end

-- The job of this record must not start, for its share is paused. `q.stopped`: there are paused shares.
local function is_stopped(q, rec)
  if not q.stopped then return false end
  local r = read_record(rec)
  return has(r.flags, 'x') and extras_of(r).share ~= '' and rule_of(q, extras_of(r).share).paused
end
