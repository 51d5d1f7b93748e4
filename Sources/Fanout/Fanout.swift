// The module Fanout.
