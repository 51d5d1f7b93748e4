/// What a control file says of the simulator itself rather than of its answers.
extension ControlReader {
    /// Puts the settings of `at_start` into the options. Throws where one is not known or has no such value.
    func apply(_ settings: [JSONValue.Member], to options: inout SimulatorOptions) throws(SimulatorError) {
        for setting in settings {
            switch setting.name {
            case "apns_streams_at_start": options.apns.streamsAtStart = UInt32(max(1, try number(setting)))
            case "apns_lower_streams_after_rejection": options.apns.lowersStreamsAfterRejection = try flag(setting)
            case "apns_go_away_after_bad_tokens": options.apns.goAwayAfterBadTokens = max(1, try number(setting))
            case "apns_expired_token_spoils_connection": options.apns.expiredTokenSpoilsConnection = try flag(setting)
            case "apns_token_updates_across_connections":
                options.apns.tokenUpdatesCountAcrossConnections = try flag(setting)
            case "apns_token_update_interval_s": options.apns.tokenUpdateIntervalSeconds = Int64(try number(setting))
            case "apns_maximum_token_age_s": options.apns.maximumTokenAgeSeconds = Int64(try number(setting))
            case "fcm_maximum_idle_pings": options.fcm.maximumIdlePings = try number(setting)
            case "fcm_idle_timeout_ms": options.fcm.idleTimeoutMilliseconds = try number(setting)
            case "oauth_expires_in_s": options.oauth.expiresInSeconds = Int64(try number(setting))
            case "refuse_unknown_devices": options.refusesUnknownDevices = try flag(setting)
            default: throw unknown(setting.name, in: "at_start")
            }
        }
    }

    /// A device behind a provider.
    func device(_ item: JSONValue) throws(SimulatorError) -> SimulatedDevice {
        guard let members = item.members else { throw fault("each of devices must be an object") }
        guard let token = item["token"]?.string, let role = item["role"] else {
            throw fault("a device needs a \"role\" and a \"token\"")
        }
        var device = SimulatedDevice(token, role: try self.role(role))
        for member in members {
            switch member.name {
            case "token", "role": continue
            case "topic": device.topic = try text(member)
            case "project": device.projectID = try text(member)
            case "online": device.isOnline = try flag(member)
            case "do":
                device.answer = try behaviour(member.value)
                switch device.answer {
                case .accept, .reject, .fault: continue
                default: throw fault("the \"do\" of a device is \"accept\", a \"reason\" or an \"fcm\" error")
                }
            default: throw unknown(member.name, in: "a device")
            }
        }
        return device
    }

    /// Seconds by which the simulator's clock is ahead, or behind where there are fewer than none.
    func offset(_ member: JSONValue.Member) throws(SimulatorError) -> Int64 {
        guard let value = member.value.integer, (-4_294_967_295...4_294_967_295).contains(value) else {
            throw fault("\(member.name) must be a whole number of seconds")
        }
        return value
    }

    private func flag(_ member: JSONValue.Member) throws(SimulatorError) -> Bool {
        guard let value = member.value.bool else { throw fault("\(member.name) must be true or false") }
        return value
    }
}
