// The module Telemetry.
