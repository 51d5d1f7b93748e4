import CLinux
import CNghttp2
import Glibc

/// One accepted connection: socket, TLS, HTTP/2 session, open streams. Belongs to the loop's thread.
final class ServerConnection {
    /// How far the connection has come.
    enum Phase {
        case handshaking
        case open
        /// Everything that is queued goes out, then the socket is closed.
        case closing
        case closed
    }

    /// What the loop does with the connection after a round of events.
    enum Fate {
        case keep
        case close
        case reset
    }

    let number: Int
    let socket: Int32
    let role: ProviderRole
    var origin: RequestJudge.Origin
    var record: ConnectionRecord
    /// True once a rule asked for it: nothing more is read or written, the socket stays open.
    var isFrozen = false
    /// In the loop's list of connections that have something to write.
    var isDirty = false

    unowned let loop: ServerLoop
    private let transport: ServerTransport
    private(set) var http: HTTP2Server?
    /// Takes the place of `http` in quick runs.
    private var quick: QuickSession?
    var phase = Phase.handshaking
    var fate = Fate.keep
    var slots: [StreamSlot?] = []
    private var freeSlots: [Int] = []
    var openStreams = 0
    /// The stream whose header block is being read.
    private var headerStream: Int32 = 0
    private var headerSlot: StreamSlot?
    var newestStream: Int32 = 0
    var newestAnswered: Int32 = 0
    /// Streams above it are not processed: a GOAWAY said so.
    var lastStream = Int32.max
    var announcedStreams: UInt32 = 0
    var keepsOpenAfterGoAway = false
    var refusesNewStreams = false
    var isMute = false
    /// True once a script set the stream limit: the usual rise after an acceptance stays away.
    var hasScriptedStreams = false
    var pingsSinceRequest = 0
    var badTokens = 0
    var lastRequestAt = monotonicMilliseconds()
    /// Requests whose round trip is not over.
    private var waiting = StreamQueue()
    private var hasWaitingTimer = false
    private var output: [UInt8] = []
    private var outputSent = 0
    private var interest: UInt32

    /// Output is gathered up to this before it is sealed into TLS records.
    private static let writeChunk = 16_384
    /// Bytes read from one connection before the others get their turn.
    private static let readTurn = 1_048_576

    init(number: Int, socket: Int32, role: ProviderRole, transport: ServerTransport, loop: ServerLoop) {
        self.number = number
        self.socket = socket
        self.role = role
        self.transport = transport
        self.loop = loop
        origin = RequestJudge.Origin(role: role, connection: number)
        record = ConnectionRecord(number: number, role: role)
        interest = EPOLLIN.rawValue
        output.reserveCapacity(2 * Self.writeChunk)
    }

    // MARK: Events

    /// The socket is readable or writable.
    func advance() -> Fate {
        guard !isFrozen else { return .keep }
        if phase == .handshaking {
            switch transport.handshake() {
            case .moved: open()
            case .wantsRead: return watch(EPOLLIN.rawValue)
            case .wantsWrite: return watch(EPOLLIN.rawValue | EPOLLOUT.rawValue)
            case .ended:
                loop.ledger.handshakeFailed()
                return .close
            }
        }
        read()
        return fate == .keep ? pump() : fate
    }

    var isHandshaking: Bool { phase == .handshaking }

    private func open() {
        phase = .open
        let streams = loop.streamsAtStart(role)
        announcedStreams = streams
        if role != .oauth, loop.judge.acceptsEverything {
            quick = QuickSession(loop.quickAnswer(role), isDelayed: loop.roundTripMilliseconds > 0)
            output += QuickSession.greeting(maxConcurrentStreams: streams)
            return
        }
        let settings: [(id: nghttp2_settings_id, value: UInt32)] = [
            (NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 4096),
            (NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams),
            (NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 65_535),
            (NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16_384),
            (NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 8000),
        ]
        http = HTTP2Server(connection: self, settings: settings, window: loop.connectionWindow)
        if http == nil { fate = .close }
    }

    private func read() {
        var taken = 0
        while fate == .keep, !isFrozen, taken < Self.readTurn {
            switch unsafe transport.read(into: loop.readBuffer) {
            case .moved(let count):
                taken += count
                let bytes = unsafe UnsafeRawBufferPointer(rebasing: loop.readBuffer[..<count])
                if unsafe !receive(bytes), fate == .keep, !isFrozen { fate = .close }
            case .wantsRead, .wantsWrite: return
            case .ended: fate = .close
            }
        }
        if taken >= Self.readTurn { loop.readAgain(self) }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard quick != nil else { return unsafe http?.receive(bytes) ?? false }
        let isInStep = unsafe quick?.receive(bytes, output: &output) ?? false
        if loop.roundTripMilliseconds > 0 {
            let due = monotonicMilliseconds() + loop.roundTripMilliseconds
            quick?.takeEnded { waiting.add($0, due: due) }
            wakeForWaiting()
        }
        if let counts = quick?.takeCounts(), counts.requests + counts.bodyBytes > 0 {
            record.requests += counts.requests
            loop.countQuick(role: role, requests: counts.requests, payloadBytes: counts.bodyBytes)
        }
        if output.count - outputSent >= Self.writeChunk, fate == .keep { fate = pump() }
        return isInStep
    }

    /// Writes what the session has, in pieces of at least 16 KiB where there is that much.
    func pump() -> Fate {
        guard http != nil || quick != nil, !isFrozen else { return .keep }
        while true {
            while let http, output.count - outputSent < Self.writeChunk {
                guard unsafe http.nextOutput({ unsafe output.append(contentsOf: $0) }) else { break }
            }
            guard output.count > outputSent else { break }
            let result = unsafe output.withUnsafeBytes { bytes in
                unsafe transport.write(UnsafeRawBufferPointer(rebasing: bytes[outputSent...]))
            }
            switch result {
            case .moved(let count): outputSent += count
            case .wantsWrite: return watch(EPOLLIN.rawValue | EPOLLOUT.rawValue)
            case .wantsRead: return watch(EPOLLIN.rawValue)
            case .ended: return .close
            }
            if outputSent == output.count {
                output.removeAll(keepingCapacity: true)
                outputSent = 0
            }
        }
        let isDone = http.map { !$0.wantsRead && !$0.wantsWrite && !keepsOpenAfterGoAway } ?? false
        if phase == .closing || isDone { return .close }
        return watch(EPOLLIN.rawValue)
    }

    private func watch(_ wanted: UInt32) -> Fate {
        guard wanted != interest else { return .keep }
        interest = wanted
        return loop.changeInterest(of: self, to: wanted) ? .keep : .close
    }

    /// Frees session and TLS, closes the socket.
    func close(_ fate: Fate) {
        guard phase != .closed else { return }
        if fate == .reset {
            Listener.reset(socket)
        } else {
            if phase != .handshaking, !isFrozen { transport.shutDown() }
            Glibc.close(socket)
        }
        phase = .closed
        http = nil
        if let quick {
            record.peakOpenStreams = quick.peakOpenStreams
            record.pings = quick.pings
        }
        for case let slot? in slots {
            // The provider took it, though nobody will hear of it any more.
            loop.deliver(slot)
            loop.giveBack(slot)
        }
        slots.removeAll()
        record.isOpen = false
    }

    // MARK: Streams, called back from the session

    func beganHeaders(stream: Int32) {
        guard let http else { return }
        // Trailers begin a header block too; the stream is known then.
        guard http.slot(of: stream) == nil else {
            headerStream = 0
            return
        }
        let slot = loop.takeSlot()
        slot.prepare(streamID: stream)
        let index = freeSlots.popLast() ?? slots.count
        if index == slots.count { slots.append(slot) } else { slots[index] = slot }
        http.set(slot: index, of: stream)
        headerStream = stream
        headerSlot = slot
        newestStream = max(newestStream, stream)
        openStreams += 1
        if openStreams > record.peakOpenStreams { record.peakOpenStreams = openStreams }
    }

    func header(stream: Int32, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        guard stream == headerStream else { return }
        if loop.keepsHeaders { unsafe headerSlot?.keep(name, value) }
        guard let field = unsafe RequestField.named(name) else { return }
        unsafe headerSlot?.store(field, value)
    }

    func body(stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        unsafe slot(stream)?.appendBody(bytes)
    }

    /// A frame came in whole; false stops the session at once.
    func received(_ head: nghttp2_frame_hd) -> Bool {
        switch UInt32(head.type) {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            guard UInt32(head.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0 else { return true }
            guard let slot = slot(head.stream_id), !slot.isComplete else { return true }
            slot.isComplete = true
            complete(slot)
            return fate == .keep && !isFrozen
        case NGHTTP2_PING.rawValue:
            if UInt32(head.flags) & NGHTTP2_FLAG_ACK.rawValue == 0 { countPing() }
            return true
        case NGHTTP2_RST_STREAM.rawValue:
            record.resetsByPeer += 1
            return true
        default:
            return true
        }
    }

    func closed(stream: Int32) {
        guard let http, let index = http.slot(of: stream), let slot = slots[index] else { return }
        slots[index] = nil
        freeSlots.append(index)
        openStreams -= 1
        loop.deliver(slot)
        loop.giveBack(slot)
    }

    private func slot(_ stream: Int32) -> StreamSlot? {
        guard let index = http?.slot(of: stream) else { return nil }
        return slots[index]
    }

    // MARK: Answers

    private func complete(_ slot: StreamSlot) {
        // The session learns of a GOAWAY only when it is framed; requests may come before that.
        guard slot.streamID <= lastStream else { return }
        record.requests += 1
        pingsSinceRequest = 0
        if role == .fcm { lastRequestAt = monotonicMilliseconds() }
        var override: Decision?
        if refusesNewStreams { override = .unanswered(.refuseStream, reason: "refused") }
        if isMute { override = .unanswered(.silence, reason: "muted") }
        if override == nil, role != .oauth, loop.judge.acceptsEverything {
            loop.countQuick(role: role, requests: 1, payloadBytes: slot.payloadBytes)
            return answerAfterRoundTrip(slot)
        }
        let (decision, entry) = loop.judge.judge(slot, origin: &origin, override: override)
        slot.decision = decision
        slot.entry = loop.enter(entry)
        if decision.delayMilliseconds > 0 {
            let delay = decision.delayMilliseconds + Int(loop.roundTripMilliseconds)
            loop.answerLater(slot.streamID, of: self, milliseconds: delay)
        } else {
            answerAfterRoundTrip(slot)
        }
    }

    private func answerAfterRoundTrip(_ slot: StreamSlot) {
        guard loop.roundTripMilliseconds > 0 else { return carryOut(slot) }
        let due = monotonicMilliseconds() + loop.roundTripMilliseconds
        waiting.add(UInt32(bitPattern: slot.streamID), due: due)
        wakeForWaiting()
    }

    /// One timer for all that wait on this connection.
    private func wakeForWaiting() {
        guard !hasWaitingTimer, let due = waiting.nextDue else { return }
        hasWaitingTimer = true
        loop.wake(self, at: due)
    }

    /// Round trips are over: their answers go out; `flush` follows.
    func answerWaiting(now: Int64) {
        hasWaitingTimer = false
        guard !isFrozen else { return }
        while let stream = waiting.takeFirst(dueBy: now) {
            if quick == nil {
                answer(stream: Int32(bitPattern: stream))
            } else {
                quick?.answer(stream: stream, output: &output)
            }
        }
        wakeForWaiting()
    }

    /// A delayed answer is due.
    func answer(stream: Int32) {
        guard !isFrozen, let slot = slot(stream), slot.isComplete else { return }
        carryOut(slot)
    }

    /// What the loop does after an answer that did not come from the socket's own event.
    func flush() -> Fate { fate == .keep ? pump() : fate }

    private func carryOut(_ slot: StreamSlot) {
        let decision = slot.decision
        switch decision.behaviour {
        case .silence: return
        case .refuseStream: http?.reset(stream: slot.streamID, code: NGHTTP2_REFUSED_STREAM.rawValue)
        case .resetStream(let code): http?.reset(stream: slot.streamID, code: code)
        case .drop(let cut): fate = cut == .reset ? .reset : .close
        case .stopReading: freeze()
        case .stopAnswering: isMute = true
        case .goAway(let plan):
            send(plan)
            respond(slot)
        case .settings(let streams):
            announce(streams: streams)
            respond(slot)
        case .initialWindow(let bytes):
            announce(initialWindow: bytes)
            respond(slot)
        case .answerThenReset(let code):
            slot.resetAfterAnswer = code
            respond(slot)
        default:
            respond(slot)
        }
        adjustStreams(after: decision)
    }

    private func respond(_ slot: StreamSlot) {
        guard let http, slot.streamID <= lastStream else { return }
        loop.deliver(slot)
        slot.entry = nil
        newestAnswered = max(newestAnswered, slot.streamID)
        if slot.decision.status == 200, slot.decision.body.isEmpty, slot.resetAfterAnswer == nil {
            return accept(slot)
        }
        slot.answerBody = slot.decision.body
        loop.responder.answer(slot, role: role, on: http)
    }

    private func accept(_ slot: StreamSlot) {
        guard let http else { return }
        loop.responder.accept(slot, role: role, on: http)
        if role.isAPNs, announcedStreams < loop.apns.streamsAfterAcceptance, !hasScriptedStreams {
            announce(streams: loop.apns.streamsAfterAcceptance, isScripted: false)
        }
    }

    /// The next piece of an answer's body, for the session.
    func readBody(
        stream: Int32,
        into buffer: UnsafeMutableBufferPointer<UInt8>
    ) -> (count: Int, isLast: Bool, isDeferred: Bool) {
        guard let slot = slot(stream) else { return (0, true, false) }
        let count = min(buffer.count, slot.answerBody.count - slot.answerSent)
        if count == 0, let code = slot.resetAfterAnswer {
            http?.reset(stream: stream, code: code)
            return (0, false, true)
        }
        unsafe slot.answerBody.withUnsafeBytes { bytes in
            let piece = unsafe UnsafeRawBufferPointer(rebasing: bytes[slot.answerSent..<slot.answerSent + count])
            unsafe UnsafeMutableRawBufferPointer(buffer).copyMemory(from: piece)
        }
        slot.answerSent += count
        return (count, slot.answerSent == slot.answerBody.count && slot.resetAfterAnswer == nil, false)
    }
}
