--- What of the new lines the model wrote, and what was copied: shown instead of what differs.
local jobs = require('stet.jobs')
local preview = require('stet.preview')
local say = require('stet.say')
local screen = require('stet.screen')

local M = {}

function M.toggle()
  preview.shows_written = not preview.shows_written
  screen.draw_all()
  local hunks = {}
  for _, job in ipairs(jobs.shown(vim.api.nvim_get_current_buf())) do
    vim.list_extend(hunks, job.hunks)
  end
  if
    preview.shows_written
    and #hunks > 0
    and not vim.iter(hunks):any(function(hunk)
      return hunk.written ~= nil
    end)
  then
    say.warn('this engine does not say what it copied')
  else
    say.info(preview.shows_written and 'written text stands out, copied text is dimmed' or 'what differs stands out')
  end
end

return M
