import CAllocationCounter
import Delivery
import PealRuntime
import PushCore

/// `PealBenchmarks messages`: nanoseconds and heap allocations of what is done once a message or once a job, without
/// database and network.
enum MessageCosts {
    static let command = Command(
        "messages",
        summary: "nanoseconds and allocations of what is done once a message or job",
        examples: [Example("PealBenchmarks messages", "prints one line an operation")]
    ) { _ in
        try measureAll()
        return .success
    }

    private static func measureAll() throws {
        callocationcounter_start()
        let content = Array(
            """
            {"title": {"default": "The sale begins", "de": "Der Ausverkauf beginnt"}, "body": "Half the price today",
             "data": {"campaign": "sale-1", "n": 7}, "url": "https://shop.example/sale"}
            """.utf8
        )
        let parsed = try Content.parse(JSONValue.parse(content))
        let settings = MessageSettings(expiration: .at(epochSeconds: 1_800_000_000), collapseID: "sale-1")
        let rejection = Array(#"{"reason":"BadDeviceToken"}"#.utf8)
        let acceptance = Array(#"{"name":"projects/shop/messages/0:1796016969654000%420c450b5640eddb"}"#.utf8)
        let job = JobID(UUIDValue.uuidV7(now: WallClock.now()))

        try StandardOutput.line("OPERATION                               NS  ALLOCATIONS")
        try measure("job: parse the content", times: 2_000) { _ = try Content.parse(JSONValue.parse(content)) }
        try measure("job: compile the APNs templates", times: 2_000) {
            _ = NotificationTemplates(parsed, provider: .apns(bundleID: "com.example.shop"), settings: settings)
        }
        let nothing: [UInt8] = []
        var checksum: UInt64 = 0
        var device: Int64 = 0
        try measure("message: apns-id", times: 1_000_000) {
            device += 1
            checksum &+= MessageID.make(job: job, device: DeviceID(device)).low
        }
        try measure("message: APNs says yes", times: 1_000_000) {
            checksum &+= APNsResponse.interpret(status: 200, body: nothing.span).outcome == .accepted ? 1 : 0
        }
        try measure("message: APNs says no", times: 100_000) {
            checksum &+= APNsResponse.interpret(status: 400, body: rejection.span).outcome == .accepted ? 1 : 0
        }
        try measure("message: FCM says yes, its name", times: 100_000) {
            checksum &+= UInt64(FCMResponse.nameRange(in: acceptance.span)?.count ?? 0)
        }
        // What was computed is shown, so that it cannot be left out.
        try StandardOutput.line("")
        try StandardOutput.line("checksum \(checksum)")
    }

    /// Runs the operation once to warm up, then so many times, and prints what one of them cost.
    private static func measure(_ name: String, times: Int, _ operation: () throws -> Void) throws {
        try operation()
        let allocations = callocationcounter_total()
        let start = ContinuousClock.now
        for _ in 0..<times { try operation() }
        let nanoseconds = (ContinuousClock.now - start) / .nanoseconds(1) / Double(times)
        let perOperation = Double(callocationcounter_total() - allocations) / Double(times)
        try StandardOutput.line(
            left(name, 34) + right("\(Int(nanoseconds.rounded()))", 8)
                + right("\((perOperation * 100).rounded() / 100)", 13)
        )
    }

    private static func left(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func right(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}
