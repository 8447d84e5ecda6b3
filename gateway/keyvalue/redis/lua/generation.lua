-- The number of the project's cache generation.
-- KEYS: generation
return redis.call('GET', KEYS[1]) or '0'
