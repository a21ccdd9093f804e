-- present: a worker says that it is there and what it does; those that have been silent for long are forgotten.
--
-- KEYS    workers  worker -> what it last said of itself
--         seen     worker -> ms of Redis time until which that counts
-- ARGV    worker   who speaks
--         ttl      ms for which its word counts; 0: it goes
--         keep     ms for which the word of one that fell silent is kept beyond that
--         word     what it says of itself
-- Reply   how many were forgotten
-- Cost    O(1); once in some seconds, by every worker
-- uses lib/record.lua
local workers, seen = unpack(KEYS)
local worker, ttl, keep, word = unpack(ARGV, 1, 4)

even_when_full(workers)
if ttl == '0' then
  redis.call('HDEL', workers, worker)
  redis.call('ZREM', seen, worker)
  return 0
end
local now = now_ms()
redis.call('HSET', workers, worker, word)
redis.call('ZADD', seen, now + tonumber(ttl), worker)
local silent = redis.call('ZRANGEBYSCORE', seen, '-inf', now - tonumber(keep), 'LIMIT', 0, 100)
in_pieces('HDEL', workers, silent)
in_pieces('ZREM', seen, silent)
return #silent
