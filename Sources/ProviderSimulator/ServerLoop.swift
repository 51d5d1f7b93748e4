import CLinux
import Glibc

/// The simulator's only thread: accepts, reads, answers, keeps time. Made on that thread and never leaves it.
@safe
final class ServerLoop {
    /// What the loop is made of; everything in it may cross to the thread.
    struct Seed: Sendable {
        let options: SimulatorOptions
        let listeners: [Listener]
        let wakeup: Wakeup
        let certificate: TestCertificate
        let meter: CPUMeter
        let ledger: Ledger
        let ledgerFile: LedgerFile?
        let control: SimulatorControl
        let controlFile: ControlFile?
        let store: CredentialStore
        let devices: DeviceRegistry
        let tokenURI: String
    }

    let ledger: Ledger
    let judge: RequestJudge
    let responder: Responder
    let apns: APNsOptions
    let keepsHeaders: Bool
    let fcm: FCMOptions
    /// Window of the whole connection for what clients send; the protocol's default unless the run is quick.
    let connectionWindow: Int32
    /// How long each answer waits, whatever it is.
    let roundTripMilliseconds: Int64
    let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 16)

    private let seed: Seed
    private let epoll: Int32
    private let tls: ServerTLS
    private let faultyTLS: [HandshakeFault: ServerTLS]
    private var connections: [Int: ServerConnection] = [:]
    private var timers = TimerHeap()
    private var pool: [StreamSlot] = []
    private var dirty: [ServerConnection] = []
    private var unread: [ServerConnection] = []
    private var nextConnection = 1
    private var nextRequest = 1
    private var quickRequests = [Int](repeating: 0, count: ProviderRole.allCases.count)
    private var quickBytes = 0
    private var ledgerChanged = false
    private var nextTick: Int64 = 0

    private static let maximumConnections = 4096
    private static let handshakeLimit: Int64 = 10_000
    private static let tickMilliseconds: Int64 = 50
    /// Event data below this number are listeners and the wake-up, not connections.
    private static let firstConnectionEvent: UInt64 = 16

    init(seed: Seed) throws(SimulatorError) {
        self.seed = seed
        ledger = seed.ledger
        apns = seed.options.apns
        keepsHeaders = seed.options.keepsHeaders
        fcm = seed.options.fcm
        connectionWindow = seed.options.depth == .quick ? 16_777_216 : 65_535
        roundTripMilliseconds = Int64(max(0, seed.options.roundTripMilliseconds))
        judge = RequestJudge(
            options: seed.options,
            control: seed.control,
            store: seed.store,
            devices: seed.devices,
            tokenURI: seed.tokenURI
        )
        responder = Responder(
            projectID: seed.options.fcm.projectID,
            clock: seed.options.sendsDate ? seed.options.clock : nil
        )
        tls = try ServerTLS(certificate: seed.certificate)
        var faulty: [HandshakeFault: ServerTLS] = [:]
        for fault in HandshakeFault.allCases {
            faulty[fault] = try ServerTLS(certificate: seed.certificate, fault: fault)
        }
        faultyTLS = faulty
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw .system(.socket, "making an epoll descriptor") }
        guard watch(seed.wakeup.descriptor, event: 0) else { throw .system(.socket, "watching the wake-up") }
        for (index, listener) in seed.listeners.enumerated() {
            guard watch(listener.descriptor, event: UInt64(index + 1)) else {
                throw .system(.socket, "watching the port of \(listener.role.rawValue)")
            }
        }
    }

    deinit {
        Glibc.close(epoll)
        unsafe readBuffer.deallocate()
    }

    /// Runs until `Wakeup.stop` was called; then closes all connections.
    func run() {
        unsafe withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: 64) { events in
            while !seed.wakeup.isStopped {
                let count = unsafe epoll_wait(epoll, events.baseAddress, Int32(events.count), timeout())
                for index in 0..<max(0, Int(count)) {
                    handle(unsafe events[index].data.u64)
                }
                finishRound()
            }
        }
        for connection in Array(connections.values) { close(connection, .close) }
        finishRound()
        seed.ledgerFile?.flush()
        seed.meter.update()
        ledger.stop()
    }

    private func handle(_ event: UInt64) {
        if event == 0 {
            seed.wakeup.drain()
        } else if event < Self.firstConnectionEvent {
            accept(seed.listeners[Int(event) - 1])
        } else if let connection = connections[Int(event - Self.firstConnectionEvent)] {
            act(connection.advance(), on: connection)
        }
    }

    private func timeout() -> Int32 {
        guard unread.isEmpty else { return 0 }
        let now = monotonicMilliseconds()
        let due = min(timers.nextDue ?? .max, nextTick)
        return Int32(clamping: max(0, due - now))
    }

    /// What follows the events: due timers, actions, output, ledger, waiters.
    private func finishRound() {
        let again = unread
        unread.removeAll(keepingCapacity: true)
        for connection in again { act(connection.advance(), on: connection) }
        performActions()
        let now = monotonicMilliseconds()
        while let work = timers.takeDue(now: now) { perform(work) }
        flushDirty()
        flushQuickCounts()
        if ledgerChanged || now >= nextTick {
            ledgerChanged = false
            ledger.wakeWaiters(now: now)
        }
        if now >= nextTick { tick(now) }
    }

    private func tick(_ now: Int64) {
        nextTick = now + Self.tickMilliseconds
        seed.meter.update()
        seed.ledgerFile?.flushIfOlderThanASecond(now: now)
        seed.controlFile?.readAgainIfChanged(now: now, into: seed.control)
        for connection in connections.values {
            ledger.update(connection: connection.record)
            if connection.endIfIdle(now: now) { markDirty(connection) }
        }
    }

    private func perform(_ work: TimerHeap.Work) {
        switch work {
        case .answer(let number, let stream):
            guard let connection = connections[number] else { return }
            connection.answer(stream: stream)
            markDirty(connection)
        case .roundTrip(let number):
            guard let connection = connections[number] else { return }
            connection.answerWaiting(now: monotonicMilliseconds())
            markDirty(connection)
        case .goAway(let number, let plan):
            guard let connection = connections[number] else { return }
            connection.send(plan)
            markDirty(connection)
        case .handshakeLimit(let number):
            guard let connection = connections[number], connection.isHandshaking else { return }
            ledger.handshakeFailed()
            close(connection, .close)
        }
    }

    private func performActions() {
        for pending in seed.control.takePendingActions() {
            for connection in Array(connections.values) where pending.role == nil || pending.role == connection.role {
                connection.perform(pending.action)
                markDirty(connection)
            }
        }
    }

    // MARK: Connections

    private func accept(_ listener: Listener) {
        while true {
            guard let socket = listener.accept() else { return }
            judge.refresh()
            if judge.script.resetsNewConnections.contains(listener.role) || connections.count >= Self.maximumConnections
            {
                Listener.reset(socket)
                continue
            }
            var one: Int32 = 1
            unsafe setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
            guard let transport = makeTransport(socket, role: listener.role) else {
                Glibc.close(socket)
                continue
            }
            let number = nextConnection
            nextConnection += 1
            let connection = ServerConnection(
                number: number,
                socket: socket,
                role: listener.role,
                transport: transport,
                loop: self
            )
            connections[number] = connection
            ledger.opened(connection: number, role: listener.role)
            // An ignored connection is not watched: it stays open and silent until the simulator stops.
            guard !judge.script.ignoresNewConnections.contains(listener.role) else { continue }
            timers.add(due: monotonicMilliseconds() + Self.handshakeLimit, .handshakeLimit(connection: number))
            guard watch(socket, event: Self.firstConnectionEvent + UInt64(number)) else {
                close(connection, .close)
                continue
            }
        }
    }

    private func makeTransport(_ socket: Int32, role: ProviderRole) -> ServerTransport? {
        if seed.options.isPlainText { return .plain(socket) }
        let fault = judge.script.handshakeFaults[role]
        let server = fault.map { faultyTLS[$0] ?? tls } ?? tls
        return server.makeStream(socket: socket).map { .tls($0) }
    }

    private func act(_ fate: ServerConnection.Fate, on connection: ServerConnection) {
        guard fate != .keep else { return }
        close(connection, fate)
    }

    private func close(_ connection: ServerConnection, _ fate: ServerConnection.Fate) {
        guard connections.removeValue(forKey: connection.number) != nil else { return }
        connection.close(fate)
        ledger.closed(connection: connection.record)
        ledgerChanged = true
    }

    private func watch(_ descriptor: Int32, event: UInt64) -> Bool {
        var entry = unsafe epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: event))
        return unsafe epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &entry) == 0
    }

    func changeInterest(of connection: ServerConnection, to events: UInt32) -> Bool {
        let data = unsafe epoll_data_t(u64: Self.firstConnectionEvent + UInt64(connection.number))
        var entry = unsafe epoll_event(events: events, data: data)
        return unsafe epoll_ctl(epoll, EPOLL_CTL_MOD, connection.socket, &entry) == 0
    }

    /// Takes a socket out of epoll, so that even its hang-up goes unnoticed.
    func stopWatching(_ connection: ServerConnection) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, connection.socket, nil)
    }

    func streamsAtStart(_ role: ProviderRole) -> UInt32 {
        switch role {
        case .apnsProduction, .apnsSandbox: apns.streamsAtStart
        case .fcm: seed.options.fcm.maximumConcurrentStreams
        case .oauth: 100
        }
    }

    // MARK: What connections ask for

    func takeSlot() -> StreamSlot { pool.popLast() ?? StreamSlot() }

    func giveBack(_ slot: StreamSlot) { pool.append(slot) }

    func readAgain(_ connection: ServerConnection) { unread.append(connection) }

    func markDirty(_ connection: ServerConnection) {
        guard !connection.isDirty else { return }
        connection.isDirty = true
        dirty.append(connection)
    }

    private func flushDirty() {
        guard !dirty.isEmpty else { return }
        let marked = dirty
        dirty.removeAll(keepingCapacity: true)
        for connection in marked {
            connection.isDirty = false
            guard connections[connection.number] != nil else { continue }
            act(connection.flush(), on: connection)
        }
    }

    func answerLater(_ stream: Int32, of connection: ServerConnection, milliseconds: Int) {
        timers.add(
            due: monotonicMilliseconds() + Int64(milliseconds),
            .answer(connection: connection.number, stream: stream)
        )
    }

    /// An accepted message is on its way to its device, unless a GOAWAY excluded it.
    func deliver(_ slot: StreamSlot) {
        guard let entry = slot.entry, entry.isAccepted, !seed.devices.isEmpty else { return }
        seed.devices.take(entry)
    }

    func wake(_ connection: ServerConnection, at due: Int64) {
        timers.add(due: due, .roundTrip(connection: connection.number))
    }

    func quickAnswer(_ role: ProviderRole) -> QuickAnswer {
        role.isAPNs ? .apns : .fcm(projectID: fcm.projectID)
    }

    func goAwayLater(_ plan: GoAway, on connection: ServerConnection) {
        var second = plan
        second.lastStream = .newest
        let due = monotonicMilliseconds() + Int64(plan.graceMilliseconds)
        timers.add(due: due, .goAway(connection: connection.number, second))
    }

    /// Enters a request in the ledger, the file and the listener; returns it with its number.
    func enter(_ record: RequestRecord) -> RequestRecord {
        var numbered = record
        numbered.number = nextRequest
        nextRequest += 1
        ledgerChanged = true
        ledger.enter(numbered)
        seed.ledgerFile?.append(numbered)
        seed.options.listener?(numbered)
        return numbered
    }

    /// A GOAWAY excluded a request that is in the ledger: the file gets a second line with its number.
    func retract(_ record: RequestRecord) {
        ledgerChanged = true
        ledger.retract(record)
        seed.ledgerFile?.append(record.excluded)
    }

    func countQuick(role: ProviderRole, requests: Int, payloadBytes: Int) {
        quickRequests[role.index] += requests
        quickBytes += payloadBytes
    }

    private func flushQuickCounts() {
        guard quickBytes > 0 || quickRequests.contains(where: { $0 > 0 }) else { return }
        for role in ProviderRole.allCases where quickRequests[role.index] > 0 || quickBytes > 0 {
            ledger.enterAccepted(role: role, payloadBytes: quickBytes, requests: quickRequests[role.index])
            quickBytes = 0
            quickRequests[role.index] = 0
            ledgerChanged = true
        }
    }
}
