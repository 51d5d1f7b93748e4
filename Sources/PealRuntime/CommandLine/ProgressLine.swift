/// Progress on standard error: one line that redraws itself on a terminal, a plain line now and then when piped.
package struct ProgressLine {
    /// What one update says.
    package struct Update: Sendable, Equatable {
        /// How much is done, in whatever unit the rate shall have.
        package var done: Int
        /// How much there is, or nil when nobody knows yet.
        package var total: Int?
        /// The share that is done, 0 to 1, where it is known better than by `done` and `total`.
        package var share: Double?
        /// Whether it stands still for now, so that no time left can be told.
        package var isHeld: Bool
        /// Words after the figures, such as outcomes by kind.
        package var note: String

        package init(done: Int, total: Int?, share: Double? = nil, isHeld: Bool = false, note: String = "") {
            self.done = done
            self.total = total
            self.share = share
            self.isHeld = isHeld
            self.note = note
        }
    }

    private struct Base {
        let done: Int
        let share: Double
        let at: ContinuousClock.Instant
    }

    private let label: String
    private let unit: String
    private let isTerminal: Bool
    private let columns: () -> Int?
    private let interval: Duration
    private let write: (String) -> Void
    /// Where rate and time left are counted from: what had been done when we began to look, or when a hold was over.
    private var base: Base?
    private var lastShown: ContinuousClock.Instant?
    private var lastUpdate: Update?

    /// Progress of something. Redraws ten times a second on a terminal, else prints every two seconds.
    /// - Parameter beginsNow: nothing is done yet; else the first update says what was done before.
    package init(
        _ label: String,
        unit: String,
        beginsNow: Bool = false,
        now: ContinuousClock.Instant = .now,
        isTerminal: Bool = StandardOutput.errorIsTerminal,
        write: @escaping (String) -> Void = StandardOutput.errorText,
        columns: @escaping () -> Int? = { StandardOutput.errorColumns }
    ) {
        self.label = label
        self.unit = unit
        self.isTerminal = isTerminal
        self.columns = columns
        self.interval = isTerminal ? .milliseconds(100) : .seconds(2)
        self.write = write
        base = beginsNow ? Base(done: 0, share: 0, at: now) : nil
    }

    /// Shows the update if it is time to.
    package mutating func show(_ update: Update, now: ContinuousClock.Instant = .now) {
        keepBase(update, now: now)
        let due = lastShown.map { now - $0 >= interval } ?? true
        if due { draw(update, now: now) }
    }

    /// Shows the last update in any case, and leaves the line.
    package mutating func finish(_ update: Update, now: ContinuousClock.Instant = .now) {
        keepBase(update, now: now)
        draw(update, now: now)
        if isTerminal { write("\n") }
    }

    /// Removes the line from a terminal, so that other text can stand there.
    package mutating func clear() {
        if isTerminal, lastShown != nil { write("\r\u{1B}[K") }
    }

    private mutating func keepBase(_ update: Update, now: ContinuousClock.Instant) {
        if update.isHeld {
            base = nil
        } else if base == nil {
            base = Base(done: update.done, share: Self.share(update) ?? 0, at: now)
        }
    }

    private static func share(_ update: Update) -> Double? {
        update.share ?? update.total.map { $0 == 0 ? 1 : min(1, Double(update.done) / Double($0)) }
    }

    private mutating func draw(_ update: Update, now: ContinuousClock.Instant) {
        let text = describe(update, now: now)
        if isTerminal {
            // A line that is wider than the terminal could not be redrawn. The bar goes first.
            let limit = columns().map { max(1, $0 - 1) } ?? Int.max
            let fitting = text.count <= limit ? text : describe(update, now: now, hasBar: false)
            write("\r\u{1B}[K\(fitting.prefix(limit))")
        } else if update != lastUpdate {
            write(text + "\n")
        }
        lastShown = now
        lastUpdate = update
    }

    private func describe(_ update: Update, now: ContinuousClock.Instant, hasBar: Bool = true) -> String {
        let share = Self.share(update)
        var text = label
        if let share {
            if isTerminal, hasBar { text += " \(Self.bar(share))" }
            text += " \(Int(share * 100))%"
        }
        text += " \(Digits.grouped(update.done))"
        if let total = update.total { text += " of \(Digits.grouped(total))" }
        text += " \(unit)"
        if let base {
            let seconds = (now - base.at) / .seconds(1)
            // Before that a rate says more about the clock than about the work.
            if seconds >= 0.5 {
                text += ", \(Digits.grouped(Int(Double(update.done - base.done) / seconds)))/s"
                if let share, share > base.share, share < 1 {
                    text += ", \(Digits.duration(seconds * (1 - share) / (share - base.share))) left"
                }
            }
        }
        return update.note.isEmpty ? text : "\(text), \(update.note)"
    }

    private static func bar(_ share: Double) -> String {
        let width = 24
        let filled = Int(share * Double(width))
        return "[" + String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled) + "]"
    }
}

/// Numbers for people.
package enum Digits {
    /// `1234567` as `1,234,567`.
    package static func grouped(_ number: Int) -> String {
        let digits = String(number.magnitude)
        var result = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { result.append(",") }
            result.append(digit)
        }
        return number < 0 ? "-\(result)" : result
    }

    /// Seconds as `1.4s`, `42s`, `3m 20s` or `2h 5m`.
    package static func duration(_ seconds: Double) -> String {
        if seconds < 10 { return "\((seconds * 10).rounded() / 10)s" }
        let whole = Int(min(seconds.rounded(), 1e9))
        if whole < 60 { return "\(whole)s" }
        if whole < 3600 { return "\(whole / 60)m \(whole % 60)s" }
        return "\(whole / 3600)h \(whole % 3600 / 60)m"
    }
}
