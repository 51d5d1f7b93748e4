// The module PealRuntime.
