// How many streams a connection may have open now: the least of what the peer announced, what its load bears, and,
// until the first good answer, what a new connection is trusted with.
struct StreamWindow {
    private(set) var peerLimit: Int
    private let maximum: Int
    private let initial: Int
    private(set) var isProvisional = true
    private(set) var answers = 0
    // Load: grows by a step each time that as many good answers came as it is wide, halves on a signal of overload.
    private(set) var bearable: Int
    private var goodAnswers = 0
    private var nextCutAfterAnswers = 0

    init(initial: Int, maximum: Int) {
        self.maximum = max(1, maximum)
        self.initial = min(max(1, initial), self.maximum)
        peerLimit = self.initial
        bearable = self.maximum
    }

    var limit: Int {
        min(peerLimit, bearable, isProvisional ? initial : maximum)
    }

    // A new connection that has not answered yet says nothing about whether there should be another.
    var isUntried: Bool { isProvisional && answers == 0 }

    mutating func peerAnnounced(_ limit: Int) {
        peerLimit = limit
    }

    // 401, 403, 429 and 5xx are no proof that the peer takes our credentials and has room.
    mutating func answered(status: Int) {
        answers += 1
        guard status < 500, status != 401, status != 403, status != 429 else { return }
        isProvisional = false
        guard bearable < maximum else { return }
        goodAnswers += 1
        if goodAnswers >= bearable {
            goodAnswers = 0
            bearable = min(maximum, bearable + max(1, maximum / 64))
        }
    }

    // At most one cut for the streams that were open at the last one: they all report the same overload.
    mutating func overloaded(atLeast least: Int = 1) {
        guard answers >= nextCutAfterAnswers else { return }
        let former = min(bearable, peerLimit)
        nextCutAfterAnswers = answers + former
        goodAnswers = 0
        bearable = min(bearable, max(least, former / 2))
    }
}
