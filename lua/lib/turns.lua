-- turns: the shares of a queue are fed to the front by turns, each job at the last moment.
-- uses lib/record.lua lib/shares.lua

-- Puts a turn where it belongs in turns[first..last], behind those that are equal.
local function insert(turns, first, last, turn)
  while last >= first and turns[last].at > turn.at do
    turns[last + 1] = turns[last]
    last = last - 1
  end
  turns[last + 1] = turn
end

-- Whose turn it is in a band, in order: as many as `count` jobs can need, without those that have run out. Answers
-- them, and false where nobody is in the ring but the stream.
local function turns_of(q, band, count, over, stream)
  local flat, turns, alone, gone, own = first_in_ring(q, band, count + over.count + 1), {}, true, false, nil
  local shares = {}
  for i = 1, #flat, 2 do shares[#shares + 1] = string.sub(flat[i], 2) end
  learn_rules(q, shares)
  for i = 1, #flat, 2 do
    local share, at = string.sub(flat[i], 2), tonumber(flat[i + 1])
    if share == '' then
      own = at
    else
      alone = false
      if rule_of(q, share).paused then
        redis.call('ZREM', q.ring, flat[i])
        gone = true
      elseif not over.at[share] then
        turns[#turns + 1] = { share = share, at = at, step = rule_of(q, share).step }
      end
    end
  end
  if alone then
    if own then redis.call('ZREM', q.ring, band) end
    return {}, false
  end
  if gone and #turns == 0 then return turns_of(q, band, count, over, stream) end
  if stream and not over.at[''] then
    own = own or tonumber(redis.call('ZSCORE', q.ring, band) or nil)
    own = own or (turns[1] and redis.call('XLEN', q.ready[band + 1]) > 0 and turns[1].at + 1)
    if own then insert(turns, 1, #turns, { share = '', at = own, step = STEP }) end
  end
  return turns, true
end

-- Of `count` jobs each one in turn: the least has one and moves on. Answers those that are to have some.
local function share_out(turns, count)
  local first, last, chosen = 1, #turns, {}
  for _ = 1, last > 0 and count or 0 do
    local turn = turns[first]
    if not turn.wants then
      chosen[#chosen + 1] = turn
      turn.from, turn.wants = turn.at, 0
    end
    turn.wants, turn.at = turn.wants + 1, turn.at + turn.step
    insert(turns, first + 1, last, turn)
    first, last = first + 1, last + 1
  end
  return chosen
end

-- The first jobs of those who are to have some, which leave their shares: their members, and whose each is.
local function leave_for_front(q, band, chosen)
  local members, whose = {}, {}
  for _, turn in ipairs(chosen) do
    if turn.share ~= '' then
      local low = turn.share .. '\0' .. band
      local found = redis.call('ZRANGE', q.shares, '[' .. low, '(' .. low .. ':', 'BYLEX', 'LIMIT', 0, turn.wants)
      turn.found, turn.had = #found, 0
      for _, member in ipairs(found) do members[#members + 1], whose[#whose + 1] = member, turn end
    end
  end
  in_pieces('ZREM', q.shares, members)
  return members, whose
end

-- Puts them into the front; what is not there any more is left out. Answers how many there were.
local function feed_chosen(q, band, chosen)
  local members, whose = leave_for_front(q, band, chosen)
  local ids, writes, fed = {}, {}, 0
  for i, member in ipairs(members) do ids[i] = string.sub(member, -16) end
  local recs = in_pieces('HMGET', q.jobs, ids)
  for i, id in ipairs(ids) do
    local entry, rest, last = string.match(recs[i] or '', '^(%S+)( %d+ %d+ %d+ %S+ )[0-5]()')
    if entry == '%' .. string.sub(members[i], -32, -17) then
      entry = redis.call('XADD', q.ready[4], '*', 'j', id)
      writes[#writes + 1] = id
      writes[#writes + 1] = entry .. rest .. band + 3 .. string.sub(recs[i], last)
      whose[i].had, fed = whose[i].had + 1, fed + 1
    end
  end
  in_pieces('HSET', q.jobs, writes)
  return fed
end

-- Those whose turn it is and who have no job leave the ring, up to the first who has one.
local function drop_idle(q, band)
  while true do
    local flat, idle = first_in_ring(q, band, 100), {}
    for i = 1, #flat, 2 do
      local share = string.sub(flat[i], 2)
      local low = share .. '\0' .. band
      if share ~= '' and #redis.call('ZRANGE', q.shares, '[' .. low, '(' .. low .. ':', 'BYLEX', 'LIMIT', 0, 1) > 0 then
        break
      elseif share ~= '' then
        idle[#idle + 1] = flat[i]
      end
    end
    in_pieces('ZREM', q.ring, idle)
    if #idle < 99 then return end
  end
end

-- Puts at most `room` jobs of a band's shares into the front. With `read`, the band's stream has its turns as well:
-- read(n) reads n of its jobs, and answers how many there were. Answers how many went to the front.
local function feed(q, band, room, read)
  local fed, got, latest, over = 0, 0, 0, { count = 0, at = {} } -- over: who has run out and stays in the ring
  while fed + got < room do
    local turns, shared = turns_of(q, band, room - fed - got, over, read ~= nil)
    local chosen, moved, idle = share_out(turns, room - fed - got), {}, false
    if not shared and read then read(room - fed - got) end
    if #chosen == 0 then break end
    fed = fed + feed_chosen(q, band, chosen)
    for _, turn in ipairs(chosen) do
      if turn.share == '' then
        turn.had = read(turn.wants)
        turn.found, got = turn.had, got + turn.had
      end
      local at = turn.from + turn.had * turn.step
      if turn.had > 0 then latest = math.max(latest, at - turn.step) end
      if turn.found < turn.wants and (turn.found > 0 or turn.share == '') then
        over.at[turn.share], over.count = at, over.count + 1
      end
      if turn.found > 0 then
        moved[#moved + 1], moved[#moved + 2] = digits(at), band .. turn.share
      else
        redis.call('ZREM', q.ring, band .. turn.share)
        idle = idle or turn.share ~= ''
      end
    end
    in_pieces('ZADD', q.ring, moved)
    if idle then drop_idle(q, band) end
  end
  for share, at in pairs(over.at) do -- the others have passed by who ran out: it has saved up nothing
    if at < latest then redis.call('ZREM', q.ring, band .. share) end
  end
  return fed
end

-- Puts the next job into the front where no stream has any that is unread: a reader may be waiting for one. The low
-- band comes first where its turn is to come next.
local function prime(q, low_first)
  if q.seq then redis.call('HSET', q.life, 'joined', digits(q.seq)) end
  if redis.call('ZCARD', q.ring) == 0 then return end
  for _, stream in ipairs(q.ready) do
    local length = redis.call('XLEN', stream)
    if length > 0 then
      local pending = of_group(redis.pcall('XPENDING', stream, 'workers'))
      if length > (pending[1] or 0) then return end
    end
  end
  for n = 0, 2 do
    if feed(q, low_first and 2 - n or n, 1) > 0 then return end
  end
end

-- A ring that was lost is made anew.
local function mend_ring(q)
  if redis.call('ZCARD', q.ring) > 0 then return end
  local from = '-'
  for _ = 1, 10000 do
    local member = redis.call('ZRANGE', q.shares, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not member then return end
    enter_ring(q, string.sub(member, -33, -33), string.sub(member, 1, -35))
    from = '(' .. string.sub(member, 1, -33) .. ':'
  end
end
