package import OpenSSL
package import PushCore

/// A pool of one client.
package struct PoolID: Hashable, Sendable {
    let number: Int
}

/// Where a pool's connections go, how many there may be, and how patient they are.
package struct PoolConfiguration: Sendable {
    /// Host name or IP address; also what the certificate is checked against.
    package var host: String
    package var port: UInt16
    package var tls: TLSContext

    /// Connections kept open even without work.
    package var minimumConnections = 0
    /// Connections at most, at least 1, beside those that drain and one that tries requests under suspicion.
    package var maximumConnections = 4
    /// Another connection is ordered when requests wait and all connections are filled to this share of their streams.
    package var growthThreshold = 0.8

    /// Streams of a new connection until its first good answer: 1 for APNs.
    package var initialStreams = 1
    /// Streams of a connection at most, whatever the peer allows.
    package var maximumStreams = 1000

    /// A connection gets half the streams when its answers take four times the least latency and so much; nil for never.
    package var slowAnswer: Duration? = .milliseconds(500)

    /// From the look-up of the name to an open TCP connection, over all addresses.
    package var connectTimeout = Duration.seconds(5)
    /// From there to the peer's SETTINGS.
    package var handshakeTimeout = Duration.seconds(5)
    /// How long a request waits in the queue while no connection can take it.
    package var connectPatience = Duration.seconds(30)
    /// Whether what waits comes back as soon as TLS came to nothing: where a person waits, a certificate is to be looked at.
    package var endsAtTLSFailure = false
    /// The wait between attempts to connect, when they fail.
    package var backoff = Backoff(first: .milliseconds(500), longest: .seconds(60))

    /// PING when requests are out and nothing was read for so long; nil for never.
    package var pingAfterQuiet: Duration? = .seconds(30)
    /// PING when no requests are out and nothing was read for so long; nil for never (FCM punishes it).
    package var pingAfterIdle: Duration?
    /// How long the answer to a PING may take.
    package var pingTimeout = Duration.seconds(10)
    /// Close a connection without work after so long, down to the minimum; nil for never.
    package var idleTimeout: Duration? = .seconds(600)
    /// Replace a connection after so long, give or take a tenth; nil for never.
    package var maximumAge: Duration?
    /// How long a connection that takes no new work may take for the answers that are out.
    package var drainLimit = Duration.seconds(60)

    /// Response fields to keep, lower case, at most four.
    package var responseFields: [String] = []
    /// How many bytes of a response's body are kept.
    package var maximumBodyBytes = 2048

    package init(host: String, port: UInt16, tls: TLSContext) {
        self.host = host
        self.port = port
        self.tls = tls
    }

    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == 443 ? name : "\(name):\(port)"
    }
}

/// What a pool is doing.
package struct PoolStatus: Sendable {
    /// Connections that take requests.
    package var activeConnections = 0
    /// Connections that are being made.
    package var connectingConnections = 0
    /// Connections that take no new requests and wait for answers.
    package var drainingConnections = 0
    /// Streams that may be open now, over all active connections.
    package var streamsAllowed = 0
    /// The peer's limit of each active connection.
    package var peerStreamLimits: [Int] = []
    /// Requests that are out.
    package var streamsInFlight = 0
    /// Requests that wait.
    package var queued = 0
    /// Since the pool was made: connections that became active.
    package var connectionsOpened = 0
    /// Since the pool was made: attempts that failed.
    package var connectionsFailed = 0
    /// Since the pool was made: GOAWAY frames received.
    package var goAways = 0
    /// Since the pool was made: requests that went back to the queue, surely not processed.
    package var requestsSentAgain = 0
    /// Since the pool was made: requests framed.
    package var requestsFramed = 0
    /// What went wrong last, with host and advice.
    package var lastError: String?
}

/// What happens to a pool's connections; rare, for logs and metrics.
package struct PoolEvent: Sendable {
    package enum Kind: Sendable, Equatable {
        case connected
        case connectFailed(UnansweredCause)
        case goAway(code: UInt32)
        case lost
        case retired
        /// Connections ended over one request, the last one while nothing else was out on it.
        case requestGivenUp
    }

    package let pool: PoolID
    package let kind: Kind
    /// Host, address, and what was said or went wrong; holds no secret.
    package let message: String
}
