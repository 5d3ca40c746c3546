--- What the user has set in vim.g.stet, with the defaults.
local M = {}

---@class stet.Config vim.g.stet
---@field auto_accept boolean apply a rewrite as soon as it is done, unless it has warnings
---@field keys table<stet.Action, string|false>|false normal-mode keys of a buffer while a rewrite is there; false: none

-- The keys of Neovim's own diff mode: `do` obtains a change, `dp` lets one's own text stand, `]c` and `[c` go from
-- one to another. Outside a diff they do nothing but complain, so a slip costs nothing before and after.
---@type stet.Config
local DEFAULTS = {
  auto_accept = false,
  keys = {
    accept = 'do',
    reject = 'dp',
    next = ']c',
    previous = '[c',
    accept_all = 'dO',
    reject_all = 'dP',
    version = ']v',
    cancel = '<Esc>',
  },
}

---@type table<string, true> what has been said of unusable settings
local told = {}

--- Whether a setting is of the type that it must be; says once if not.
---@param name string
---@param value any
---@param is_usable boolean
---@param wanted string
---@return boolean
local function check(name, value, is_usable, wanted)
  local message = ('vim.g.%s must be %s, not %s'):format(name, wanted, vim.inspect(value))
  if not is_usable and not told[message] then
    told[message] = true
    require('stet.say').warn(message .. ': the default is taken')
  end
  return is_usable
end

--- The settings; where one can't be used, its default.
---@return stet.Config
function M.get()
  local given = vim.g.stet or {}
  if not check('stet', given, type(given) == 'table', 'a table') then
    return DEFAULTS
  end
  local auto, keys = given.auto_accept, given.keys
  if auto ~= nil and not check('stet.auto_accept', auto, type(auto) == 'boolean', 'true or false') then
    given.auto_accept = nil
  end
  if keys ~= nil and not check('stet.keys', keys, keys == false or type(keys) == 'table', 'a table or false') then
    given.keys = nil
  end
  for action, key in pairs(given.keys or {}) do
    if not check('stet.keys.' .. action, key, key == false or type(key) == 'string', 'a string or false') then
      given.keys[action] = nil
    end
  end
  return vim.tbl_deep_extend('force', DEFAULTS, given)
end

return M
