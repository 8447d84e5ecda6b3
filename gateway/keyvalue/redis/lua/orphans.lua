-- Hands out a project's reservations whose lease has passed, for one more lease under the asker's name.
-- KEYS: reserved, leases   ARGV: asker, limit
-- Replies the number of reservations there are, then {request, day, epoch, record} of each one handed out.
local at = server_time()
local reply = {redis.call('HLEN', KEYS[1])}
for _, request in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', exact(at), 'LIMIT', 0, ARGV[2])) do
  local packed = redis.call('HGET', KEYS[1], request)
  if packed then
    local terms = cmsgpack.unpack(packed)
    terms[1] = ARGV[1]
    redis.call('HSET', KEYS[1], request, cmsgpack.pack(terms))
    redis.call('ZADD', KEYS[2], exact(at + RESERVATION_SECONDS), request)
    reply[#reply + 1] = {request, terms[2], terms[3], terms[5]}
  else
    redis.call('ZREM', KEYS[2], request)
  end
end
return reply
