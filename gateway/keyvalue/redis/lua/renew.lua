-- Extends the leases of living calls, and writes back what was lost.
-- KEYS: reserved, leases, budget, then per call: finished, claim
-- ARGV: owner, then per call: request, fingerprint, day, epoch, worst case, record ('' where a part is missing)
local reserved, leases, budget, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local at = server_time()
for call = 0, (#KEYS - 3) / 2 - 1 do
  local finished, claim = KEYS[4 + 2 * call], KEYS[5 + 2 * call]
  local first = 2 + 6 * call
  local request, fingerprint, day = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  if redis.call('EXISTS', finished) == 0 then
    if fingerprint ~= '' then
      local held = redis.call('HMGET', claim, 'r', 'l', 'k')
      if held[1] == request and held[2] then
        redis.call('HSET', claim, 'l', exact(at + CLAIM_SECONDS))
        redis.call('EXPIRE', claim, GARBAGE_SECONDS)
      elseif not held[1] or (held[2] and tonumber(held[2]) <= at) then
        write_claim(claim, fingerprint, request, at)
      end
    end
    if day ~= '' then
      local packed = redis.call('HGET', reserved, request)
      if not packed then
        local terms = {owner, day, ARGV[first + 3], ARGV[first + 4], ARGV[first + 5]}
        reserve(reserved, leases, budget, request, terms, at)
      elseif cmsgpack.unpack(packed)[1] == owner then
        redis.call('ZADD', leases, exact(at + RESERVATION_SECONDS), request)
      end
    end
  end
end
return 1
