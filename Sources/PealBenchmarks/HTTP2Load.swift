import CAllocationCounter
import Delivery
import Glibc
import HTTP2
import OpenSSL
import PealRuntime
import PushCore

/// `PealBenchmarks http2`: pushes to an APNs endpoint as delivery makes them, without the database.
///
/// Per message it does what a batch's message costs in peal: path and `apns-id` written into the batch's arena, checks,
/// the hand-over, HTTP/2 and TLS, the answer read, its apns-id compared, the outcome appended as a result.
enum HTTP2Load {
    static let command = Command(
        "http2",
        summary: "pushes to an APNs endpoint, as delivery makes them",
        discussion: """
            The counterpart of h2load. Prints one line: requests, accepted, wall seconds, CPU seconds, allocations of our
            own code and in all (0 without --count-allocations). --describe prints the request instead, for h2load to send the same.
            """,
        options: [
            Option("host", "NAME", "where to connect; default localhost"),
            Option("port", "PORT", "where to connect"),
            Option("ca", "FILE", "certificates to trust"),
            Option("requests", "N", "how many; default 100000"),
            Option("connections", "N", "default 1"),
            Option("streams", "N", "open at once on each connection; default 1000"),
            Option(flag: "count-allocations", "count them, which costs a little by itself"),
            Option(flag: "describe", "print headers and body of the requests, and end"),
        ],
        examples: [Example("PealBenchmarks http2 --port 9443 --ca ca.pem", "sends 100,000")]
    ) { arguments in
        try await run(arguments)
    }

    @concurrent
    private static func run(_ arguments: ParsedArguments) async throws -> ExitStatus {
        let notification = try LoadNotification()
        if arguments.flag("describe") {
            for field in notification.allHeaders { try StandardOutput.line("header \(field.name): \(field.value)") }
            try StandardOutput.line("body \(String(decoding: notification.body, as: UTF8.self))")
            return .success
        }
        guard let port = try arguments.integer("port", in: 1...65_535) else {
            throw CommandError(.usage, "no port was given", at: "--port")
        }
        if arguments.flag("count-allocations") { callocationcounter_start() }
        let requests = try arguments.integer("requests", in: 1...1_000_000_000) ?? 100_000
        var pool = PoolConfiguration(
            host: arguments.text("host") ?? "localhost",
            port: UInt16(port),
            tls: try TLSContext(trustingAlso: arguments.text("ca"))
        )
        pool.maximumConnections = try arguments.integer("connections", in: 1...64) ?? 1
        pool.minimumConnections = pool.maximumConnections
        pool.maximumStreams = try arguments.integer("streams", in: 1...100_000) ?? 1_000
        // As Delivery sets them for APNs.
        pool.initialStreams = 1
        pool.responseFields = ["apns-id", "apns-unique-id", "retry-after"]
        let start = ContinuousClock.now
        let counts = try await LoadRun(notification: notification, pool: pool).send(requests)
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        try StandardOutput.line(
            "requests \(requests) accepted \(counts.accepted) seconds \(seconds) cpu_seconds \(cpuSeconds()) "
                + "own_allocations \(callocationcounter_own()) allocations \(callocationcounter_total())"
        )
        return counts.accepted == requests ? .success : .failure
    }

    /// User and system time of the process so far.
    private static func cpuSeconds() -> Double {
        var usage = rusage()
        _ = unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
}

/// The notification that is sent: an ordinary alert, compiled as delivery compiles it.
struct LoadNotification: Sendable {
    let headers: [HeaderField]
    let body: [UInt8]
    let job = JobID(UUIDValue.uuidV7(now: WallClock.now()))
    /// As long as a provider token is.
    let authorization = "bearer " + String(repeating: "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyMyJ9", count: 5).prefix(190)

    init() throws {
        let content = try Content.parse(
            JSONValue.parse(
                Array(
                    """
                    {"title": "The sale begins", "body": "Half the price on everything today, in all shops and online.",
                     "sound": "default", "data": {"campaign": "sale-1", "page": "/sale/today"}}
                    """.utf8
                )
            )
        )
        let settings = MessageSettings(
            expiration: .at(epochSeconds: WallClock.now().secondsSinceEpoch + 3_600),
            collapseID: "sale-1"
        )
        let template = NotificationTemplates(content, provider: .apns(bundleID: "com.example.shop"), settings: settings)
            .all[0]
        headers = template.headers
        body = template.renderBody(token: [], secondsLeft: 0)
    }

    /// With those that differ by pool or message, the latter with an example.
    var allHeaders: [HeaderField] {
        let id = MessageID.make(job: job, device: DeviceID(1))
        return [HeaderField("authorization", authorization)] + headers + [HeaderField("apns-id", "\(id)")]
    }
}
