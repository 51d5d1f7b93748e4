// How a connection's requests fared lately: a share that each outcome moves by a thirty-second.
struct ConnectionHealth {
    private var badShare = 0.0
    private var outcomes = 0

    // Timed out, refused, reset, or answered with 5xx.
    mutating func note(isBad: Bool) {
        outcomes += 1
        badShare += ((isBad ? 1 : 0) - badShare) / 32
    }

    // More than half of its requests go wrong. The first few say nothing.
    var isSick: Bool { outcomes >= 32 && badShare > 0.5 }
}
