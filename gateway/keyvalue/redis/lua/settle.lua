-- The end of a call that was made.
-- KEYS: reserved, leases, budget, generation, finished, claim, answer
-- ARGV: request, day of the terms ('' without), cost, now, fingerprint ('' without claim),
--       keeps ('a' answer, 'n' note or ''), what to keep, caches ('1' or ''), the answer to cache, generation, expiry, lifetime
local reserved, leases, budget, generation = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local finished, claim, answer = KEYS[5], KEYS[6], KEYS[7]
local request, now = ARGV[1], tonumber(ARGV[4])

if redis.call('EXISTS', finished) == 1 then
  return 0
end

-- The first write is one that needs no memory, so that a full Redis still lets running calls end.
redis.call('ZREM', leases, request)
local day = drop_reservation(reserved, leases, budget, request) or ARGV[2]
if day ~= '' then
  -- Whatever the epoch of a known total: leaving a cost out of one could exceed the cap, counting it can't.
  if redis.call('HEXISTS', budget, day .. ':spent') == 1 then
    redis.call('HINCRBY', budget, day .. ':spent', ARGV[3])
    redis.call('HDEL', budget, day .. ':token')
  else
    -- Unknown: a total that somebody is reading just now may lack this cost, so its token passes.
    redis.call('HSET', budget, day .. ':token', 'after ' .. request)
  end
end
redis.call('SET', finished, '1', 'EX', FINISHED_SECONDS)

if ARGV[5] ~= '' then
  if ARGV[6] == '' then
    drop_claim(claim, request)
  else
    -- Kept, unless the key belongs to another call by now.
    local held = redis.call('HMGET', claim, 'r', 'l', 'k')
    local foreign = false
    if held[3] then
      foreign = now < tonumber(held[3]) + KEPT_SECONDS
    elseif held[1] then
      foreign = held[1] ~= request and tonumber(held[2]) > server_time()
    end
    if not foreign then
      redis.call('DEL', claim)
      redis.call('HSET', claim, 'f', ARGV[5], 'r', request, 'k', ARGV[4], ARGV[6], ARGV[7])
      redis.call('EXPIRE', claim, GARBAGE_SECONDS)
    end
  end
end

if ARGV[8] ~= '' and ARGV[10] == (redis.call('GET', generation) or '0') then
  redis.call('DEL', answer)
  redis.call('HSET', answer, 'g', ARGV[10], 'x', ARGV[11], 'a', ARGV[9])
  redis.call('EXPIRE', answer, ARGV[12])
end
return 1
