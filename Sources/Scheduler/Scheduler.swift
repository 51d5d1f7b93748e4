// The module Scheduler.
