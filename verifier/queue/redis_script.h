#pragma once

// Every transition of the Redis queue, as one script that Redis runs whole or not at all.
//
//   EVALSHA <sha> 1 {hone}: <operation> <arguments...>
//
// Job: a hash of id, digest, kind, pri, retain, tries, lease ("" while it waits), node, stream, entry, since (µs of
// Redis' clock), payload, state, bytes. All keys share the hash tag {hone}, so that a cluster keeps them together.

namespace hone::verifier {

inline constexpr char kRedisQueueScript[] = R"lua(
local P = KEYS[1]
local call = redis.call
local function num(x) return string.format('%.0f', x) end
local function now() local t = call('TIME') return t[1] * 1000000 + t[2] end
local function job(key) return P .. 'job:' .. key end
local function watch(key) return P .. 'watch:' .. key end
local function kept(key) return P .. 'kept:' .. key end
local OVERHEAD = 512

local function enqueue(key, kind, pri)
  local stream = P .. 'q:' .. kind .. ':' .. pri
  if call('EXISTS', stream) == 0 then
    call('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
    call('SADD', P .. 'streams', stream)
  end
  local entry = call('XADD', stream, '*', 'job', key)
  call('HSET', job(key), 'stream', stream, 'entry', entry, 'lease', '', 'node', '', 'kind', kind, 'pri', pri)
  call('PUBLISH', P .. 'wake', kind)
end

local function dequeue(key)
  local at = call('HMGET', job(key), 'stream', 'entry')
  if at[1] and at[2] then
    call('XACK', at[1], 'workers', at[2])
    call('XDEL', at[1], at[2])
  end
end

-- Forgets a job and tells those who wait.
local function finish(key, ending, body)
  dequeue(key)
  local nodes = call('HGETALL', watch(key))
  for i = 1, #nodes, 2 do
    local results = P .. 'results:' .. nodes[i]
    call('XADD', results, '*', 'token', nodes[i + 1], 'ending', ending, 'body', body)
    call('EXPIRE', results, 600)
  end
  call('DECRBY', P .. 'bytes', call('HGET', job(key), 'bytes'))
  call('DEL', job(key), watch(key))
  return #nodes / 2
end

local function drop_letter(key)
  local letter = call('HGET', P .. 'dead_by_key', key)
  if letter then
    call('XDEL', P .. 'dead', letter)
    call('HDEL', P .. 'dead_by_key', key)
  end
end

local function bury(key, reason, tries, max_dead)
  local kind = call('HGET', job(key), 'kind')
  local epitaph = reason .. ' (' .. tries .. ' tries)'
  finish(key, 'dead', epitaph)
  drop_letter(key)
  call('HSET', P .. 'dead_by_key', key, call('XADD', P .. 'dead', '*', 'key', key, 'kind', kind, 'reason', epitaph))
  while call('XLEN', P .. 'dead') > max_dead do
    local oldest = call('XRANGE', P .. 'dead', '-', '+', 'COUNT', 1)[1]
    call('XDEL', P .. 'dead', oldest[1])
    call('HDEL', P .. 'dead_by_key', oldest[2][2])
  end
end

local function fail(key, reason, max_tries, max_dead)
  local at = call('HMGET', job(key), 'tries', 'kind', 'pri')
  if tonumber(at[1]) >= max_tries then return bury(key, reason, at[1], max_dead) end
  dequeue(key)
  enqueue(key, at[2], at[3])
end

local function drop_kept(key)
  call('DECRBY', P .. 'bytes', call('HGET', kept(key), 'bytes') or 0)
  call('DEL', kept(key))
  call('ZREM', P .. 'kept', key)
end

local function drop_expired()
  for _, key in ipairs(call('ZRANGEBYSCORE', P .. 'kept', '-inf', num(now()), 'LIMIT', 0, 64)) do drop_kept(key) end
end

local function held(key, lease) return lease ~= '' and call('HGET', job(key), 'lease') == lease end

local ops = {}

function ops.submit(key, kind, pri, digest, retain, node, token, limit, payload)
  drop_expired()
  local at = call('HMGET', job(key), 'digest', 'lease', 'pri', 'kind')
  if at[1] then
    if at[1] ~= digest then return {'conflict', 'already names'} end
    call('HSET', watch(key), node, token)
    if tonumber(pri) > tonumber(at[3]) then
      if at[2] == '' then
        dequeue(key)
        enqueue(key, at[4], pri)
      else
        call('HSET', job(key), 'pri', pri)
      end
    end
    return {'ok'}
  end
  local old = call('HMGET', kept(key), 'digest', 'result')
  if old[1] then
    if old[1] ~= digest then return {'conflict', 'already named'} end
    return {'kept', old[2]}
  end
  drop_letter(key)
  local bytes = #payload + OVERHEAD
  local used = tonumber(call('GET', P .. 'bytes') or '0')
  while used + bytes > tonumber(limit) do
    local oldest = call('ZRANGE', P .. 'kept', 0, 0)[1]
    if not oldest then return {'full', num(used), num(bytes)} end
    drop_kept(oldest)
    used = tonumber(call('GET', P .. 'bytes'))
  end
  call('INCRBY', P .. 'bytes', bytes)
  call('HSET', job(key), 'id', call('INCR', P .. 'last_id'), 'digest', digest, 'retain', retain, 'tries', 0,
       'since', num(now()), 'payload', payload, 'state', '', 'bytes', bytes)
  call('HSET', watch(key), node, token)
  enqueue(key, kind, pri)
  return {'ok'}
end

function ops.abandon(key, node, token)
  if call('HGET', watch(key), node) ~= token then return {'ok'} end
  call('HDEL', watch(key), node)
  if call('EXISTS', watch(key)) == 0 and call('HGET', job(key), 'lease') == '' then finish(key, 'cancelled', '') end
  return {'ok'}
end

function ops.cancel(key, reason)
  if call('EXISTS', job(key)) == 0 then return {'ok', 0} end
  return {'ok', finish(key, 'cancelled', reason)}
end

function ops.lease(node, lease, ...)
  for _, kind in ipairs({...}) do
    for pri = 2, 0, -1 do
      local stream = P .. 'q:' .. kind .. ':' .. pri
      while call('EXISTS', stream) == 1 do
        local read = call('XREADGROUP', 'GROUP', 'workers', node, 'COUNT', 1, 'STREAMS', stream, '>')
        if not read or not read[1] then break end
        local entry = read[1][2][1]
        local key = entry[2] and entry[2][2]
        local at = key and call('HMGET', job(key), 'entry', 'stream', 'id', 'payload', 'state', 'digest', 'since')
        if at and at[1] == entry[1] and at[2] == stream then
          local tries = call('HINCRBY', job(key), 'tries', 1)
          call('HSET', job(key), 'lease', lease, 'node', node)
          return {'job', at[3], key, kind, at[4], at[5], num(tries), at[6], num(now() - at[7])}
        end
        call('XACK', stream, 'workers', entry[1])  -- names no job that is here
        call('XDEL', stream, entry[1])
      end
    end
  end
  return {'none'}
end

function ops.beat(node, ...)
  call('EXPIRE', P .. 'results:' .. node, 600)
  local leases = {...}
  for i = 1, #leases, 2 do
    if held(leases[i], leases[i + 1]) then
      local at = call('HMGET', job(leases[i]), 'stream', 'entry')
      call('XCLAIM', at[1], 'workers', node, 0, at[2], 'JUSTID')
    end
  end
  return {'ok'}
end

function ops.held(key, lease) return {held(key, lease) and 'ok' or 'lost'} end

function ops.advance(key, lease, kind, state)
  if not held(key, lease) then return {'lost'} end
  dequeue(key)
  local at = call('HMGET', job(key), 'state', 'pri')
  call('INCRBY', P .. 'bytes', #state - #at[1])
  call('HINCRBY', job(key), 'bytes', #state - #at[1])
  call('HSET', job(key), 'state', state, 'tries', 0, 'since', num(now()))
  enqueue(key, kind, at[2])
  return {'ok'}
end

function ops.complete(key, lease, retention_us, result)
  if not held(key, lease) then return {'lost'} end
  local at = call('HMGET', job(key), 'retain', 'digest')
  finish(key, 'done', result)
  if at[1] == '1' then
    local bytes = #result + OVERHEAD
    call('HSET', kept(key), 'digest', at[2], 'result', result, 'bytes', bytes)
    call('ZADD', P .. 'kept', num(now() + retention_us), key)
    call('INCRBY', P .. 'bytes', bytes)
  end
  drop_expired()
  return {'ok'}
end

function ops.fail(key, lease, max_tries, max_dead, reason)
  if not held(key, lease) then return {'lost'} end
  fail(key, reason, tonumber(max_tries), tonumber(max_dead))
  return {'ok'}
end

function ops.release(key, lease)
  if not held(key, lease) then return {'lost'} end
  call('HINCRBY', job(key), 'tries', -1)
  local at = call('HMGET', job(key), 'kind', 'pri')
  dequeue(key)
  enqueue(key, at[1], at[2])
  return {'ok'}
end

function ops.reap(lost_after_ms, max_tries, max_dead)
  local reaped = 0
  for _, stream in ipairs(call('SMEMBERS', P .. 'streams')) do
    if call('EXISTS', stream) == 1 then
      local claimed = call('XAUTOCLAIM', stream, 'workers', 'reaper', lost_after_ms, '0-0', 'COUNT', 64)[2]
      for _, entry in ipairs(claimed) do
        local key = entry and entry[2] and entry[2][2]
        local at = key and call('HMGET', job(key), 'entry', 'stream', 'node')
        if at and at[1] == entry[1] and at[2] == stream then
          fail(key, 'the worker ' .. at[3] .. ' gave no sign of life while it held the job', tonumber(max_tries), tonumber(max_dead))
          reaped = reaped + 1
        elseif entry then
          call('XACK', stream, 'workers', entry[1])
          call('XDEL', stream, entry[1])
        end
      end
    end
  end
  drop_expired()
  return {'ok', reaped}
end

function ops.stats()
  local out = {'ok', call('GET', P .. 'bytes') or '0', num(call('XLEN', P .. 'dead'))}
  for _, stream in ipairs(call('SMEMBERS', P .. 'streams')) do
    if call('EXISTS', stream) == 1 then
      local leased = call('XPENDING', stream, 'workers')[1]
      out[#out + 1] = stream
      out[#out + 1] = num(call('XLEN', stream) - leased)
      out[#out + 1] = num(leased)
    end
  end
  return out
end

function ops.hello(version)
  call('SET', P .. 'version', version, 'NX')
  if (call('GET', P .. 'bytes') or '0') == '0' then call('SET', P .. 'version', version) end  -- empty: anybody's
  return {'ok', call('GET', P .. 'version')}
end

return ops[ARGV[1]](unpack(ARGV, 2))
)lua";

}  // namespace hone::verifier
