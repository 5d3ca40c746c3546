--- Keys of a buffer while a rewrite is there to review or to stop. One that the buffer has a map for stays as it is.
local config = require('stet.config')

local M = {}

---@alias stet.Action
---| 'accept' # the change at the cursor
---| 'reject'
---| 'next'
---| 'previous'
---| 'accept_all'
---| 'reject_all'
---| 'version' # the next of several
---| 'cancel'

---@type table<stet.Action, string>
local MAPS = {
  accept = 'accept-hunk',
  reject = 'reject-hunk',
  next = 'next',
  previous = 'previous',
  accept_all = 'accept',
  reject_all = 'reject',
  version = 'version',
  cancel = 'cancel',
}

--- What a hint says of them, in this order.
---@type { [1]: string, [2]: stet.Action, [3]: stet.Action? }[]
local WORDS = {
  { 'accept', 'accept' },
  { 'reject', 'reject' },
  { 'all', 'accept_all', 'reject_all' },
  { 'move', 'next', 'previous' },
  { 'version', 'version' },
}

---@type table<integer, table<stet.Action, string>> by buffer: the keys that are mapped now
local mapped = {}

---@param buf integer
---@param key string
---@return boolean
local function is_taken(buf, key)
  return vim.api.nvim_buf_call(buf, function()
    return vim.fn.maparg(key, 'n', false, true).buffer == 1
  end)
end

--- Map the keys for these actions in buf, and no others.
---@param buf integer
---@param actions stet.Action[]
function M.offer(buf, actions)
  if not vim.api.nvim_buf_is_valid(buf) then
    mapped[buf] = nil
    return
  end
  local before, now = mapped[buf] or {}, {}
  for action, key in pairs(before) do
    if vim.list_contains(actions, action) then
      now[action] = key
    else
      pcall(vim.keymap.del, 'n', key, { buffer = buf })
    end
  end
  local keys = config.get().keys or {}
  for _, action in ipairs(actions) do
    local key = keys[action]
    if key and not now[action] and not is_taken(buf, key) then
      local opts = { buffer = buf, remap = true, nowait = true, desc = 'Stet: ' .. action:gsub('_', ' ') }
      vim.keymap.set('n', key, '<Plug>(stet-' .. MAPS[action] .. ')', opts)
      now[action] = key
    end
  end
  mapped[buf] = next(now) and now or nil
end

--- What keys are mapped for in buf.
---@param buf integer
---@return stet.Action[]
function M.offered(buf)
  return vim.tbl_keys(mapped[buf] or {})
end

--- The key that is mapped in buf for an action.
---@param buf integer
---@param action stet.Action
---@return string?
function M.pressed(buf, action)
  return (mapped[buf] or {})[action]
end

--- The keys of a review that are mapped in buf, in words.
---@param buf integer
---@return string?
function M.words(buf)
  local keys, words = mapped[buf] or {}, {}
  for _, word in ipairs(WORDS) do
    local pressed = {}
    for _, action in ipairs(vim.list_slice(word, 2)) do
      table.insert(pressed, keys[action])
    end
    if #pressed > 0 then
      table.insert(words, table.concat(pressed, ' ') .. ' ' .. word[1])
    end
  end
  return #words > 0 and table.concat(words, ' · ') or nil
end

return M
