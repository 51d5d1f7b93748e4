// The module ProviderSimulator.
