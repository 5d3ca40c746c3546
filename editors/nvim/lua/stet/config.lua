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

---@return stet.Config
function M.get()
  return vim.tbl_deep_extend('force', DEFAULTS, vim.g.stet or {})
end

return M
