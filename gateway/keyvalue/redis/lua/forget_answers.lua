-- Begins a new cache generation: what an older one kept is not found any more, and expires.
-- KEYS: generation
return redis.call('INCR', KEYS[1])
