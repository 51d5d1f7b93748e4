// How many frames that bring nothing a peer may send: PING, SETTINGS, WINDOW_UPDATE, frames on streams that are over,
// empty DATA, interim answers. Each costs us a little time or an answer, so they are paid for by what we send and by time.
struct FloodGuard {
    private static let most = 10_000
    private static let perSecond = 1000
    // A server may open two windows for each piece of a body, however small its windows make the pieces.
    private static let perFrame = 4

    private var left = FloodGuard.most
    private var countedAt: LoopTime

    init(now: LoopTime) {
        countedAt = now
    }

    // HEADERS or DATA.
    mutating func frameSent() {
        left = min(FloodGuard.most, left + FloodGuard.perFrame)
    }

    mutating func timePassed(until now: LoopTime) {
        let wait = now.nanoseconds - countedAt.nanoseconds
        // Only what is worth a frame is counted, so that many short waits add up.
        guard wait >= 1_000_000 else { return }
        countedAt = now
        left = min(FloodGuard.most, left + Int(min(wait / 1_000_000, 1_000_000)) * FloodGuard.perSecond / 1000)
    }

    mutating func uselessFrame() throws(ProtocolFault) {
        left -= 1
        if left < 0 { throw ProtocolFault(.enhanceYourCalm, "a flood of frames that bring nothing") }
    }
}
