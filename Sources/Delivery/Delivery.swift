// The module Delivery.
