// How a connection's requests fared lately: a share that each outcome moves by a thirty-second.
struct ConnectionHealth {
    private var badShare = 0.0
    private var outcomes = 0

    // Timed out, refused, reset, or answered with 5xx; before the first good answer also with 401, 403 or 429.
    mutating func note(isBad: Bool) {
        outcomes += 1
        badShare += ((isBad ? 1 : 0) - badShare) / 32
    }

    // The first few say nothing, neither good nor bad.
    private var isKnown: Bool { outcomes >= 32 }

    // More than half of its requests go wrong.
    var isSick: Bool { isKnown && badShare > 0.5 }

    // At least half of its requests go well: proof that the peer answers.
    var isWell: Bool { isKnown && badShare <= 0.5 }
}
