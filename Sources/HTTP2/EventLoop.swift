internal import CLinux
internal import Glibc
internal import OpenSSL
internal import PushCore

// One thread's loop: epoll, timers, pools and their connections. Made on its thread and never leaves it.
//
// A turn: wait for sockets, the mailbox or the clock; read; obey commands; let due timers fire; let every pool that has
// something to do send; hand over the completions as one chunk.
final class EventLoop {
    let inbox: Inbox
    let resolver: Resolver
    let input = InputBuffer()
    var timers = TimerHeap()
    let completions: CompletionWriter
    var dirtyPools: [Pool] = []
    private(set) var now = LoopTime.now()
    private(set) var wallNow = WallClock.now()

    private let epoll: Int32
    private let events: (@Sendable (PoolEvent) -> Void)?
    private var pools: [PoolID: Pool] = [:]
    private var connections: [UInt64: Connection] = [:]
    private var lastConnectionID: UInt64 = 0
    private var unread: [Connection] = []
    private var commands: [LoopCommand] = []
    private var isStopping = false
    private var stopDeadline = LoopTime.never
    private var stopWaiters: [CheckedContinuation<Void, Never>] = []

    private static let inboxMark = UInt64.max

    init(
        inbox: Inbox,
        resolver: Resolver,
        epoll: Int32,
        events: (@Sendable (PoolEvent) -> Void)?,
        sink: @escaping @Sendable (CompletionChunk) -> Void
    ) {
        self.inbox = inbox
        self.resolver = resolver
        self.epoll = epoll
        self.events = events
        completions = CompletionWriter(sink: sink)
    }

    deinit {
        Glibc.close(epoll)
    }

    // MARK: Running

    // Runs until it is told to stop and every pool is closed.
    func run() {
        let failure = watch(inbox.wakeDescriptor, EPOLLIN.rawValue, connection: EventLoop.inboxMark)
        precondition(failure == nil, "epoll refuses the client's eventfd")
        unsafe withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: 64) { ready in
            while !isStopping || !pools.isEmpty { unsafe turn(ready) }
        }
        end()
    }

    private func turn(_ ready: UnsafeMutableBufferPointer<epoll_event>) {
        let count = unsafe epoll_wait(epoll, ready.baseAddress, Int32(ready.count), waitMilliseconds)
        precondition(count >= 0 || errno == EINTR, "epoll_wait: \(errorText(errno))")
        now = LoopTime.now()
        for connection in takeUnread() where !connection.state.isClosed { connection.receive() }
        for index in 0..<max(0, Int(count)) {
            let event = unsafe ready[index]
            if unsafe event.data.u64 == EventLoop.inboxMark {
                inbox.clearWake()
            } else {
                unsafe connections[event.data.u64]?.socketReady(event.events)
            }
        }
        obeyCommands()
        fireTimers()
        while !dirtyPools.isEmpty {
            let pools = dirtyPools
            dirtyPools.removeAll(keepingCapacity: true)
            for pool in pools { pool.pump() }
        }
        completions.flush()
    }

    private var waitMilliseconds: Int32 {
        if !unread.isEmpty { return 0 }
        guard let earliest = timers.earliest else { return -1 }
        let wait = earliest.nanoseconds - LoopTime.now().nanoseconds
        // Rounded up, so that the timer is due when the wait is over.
        return wait <= 0 ? 0 : Int32(min((wait + 999_999) / 1_000_000, 60_000))
    }

    private func takeUnread() -> [Connection] {
        defer { unread.removeAll(keepingCapacity: true) }
        for connection in unread { connection.isUnread = false }
        return unread
    }

    private func fireTimers() {
        while let owner = timers.popDue(at: now) {
            switch owner {
            case .connection(let id): connections[id]?.timerFired()
            case .pool(let id): pools[id]?.timerFired()
            case .stop: break
            }
        }
    }

    func refreshWallClock() {
        wallNow = WallClock.now()
    }

    // When a wall time comes round, as the monotonic clock sees it now.
    func loopTime(of deadline: WallClock.Instant?) -> LoopTime {
        guard let deadline else { return .never }
        return now + (deadline - WallClock.now())
    }

    // MARK: Commands

    private func obeyCommands() {
        inbox.take(into: &commands)
        for command in commands { obey(command) }
        commands.removeAll(keepingCapacity: true)
    }

    private func obey(_ command: LoopCommand) {
        switch command {
        case .makePool(let id, let configuration):
            // A pool that nobody closes would keep a loop that stops from ending.
            guard !isStopping else { return }
            let pool = Pool(id: id, configuration: configuration, loop: self)
            pools[id] = pool
            pool.isDirty = true
        case .setField(let id, let field): pools[id]?.setField(field)
        case .submit(let submit):
            if let pool = pools[submit.pool] { pool.submit(submit) } else { refuse(submit) }
        case .cancel(let tag):
            for pool in pools.values { pool.cancel(tag: tag) }
        case .reportOverload(let id): pools[id]?.reportOverload()
        case .renewConnections(let id): pools[id]?.renewConnections()
        case .closePool(let id, let limit): pools[id]?.close(within: limit)
        case .status(let id, let continuation): continuation.resume(returning: pools[id]?.status)
        case .resolved(let id, let answer): connections[id]?.resolved(answer)
        case .stop(let limit, let continuation):
            isStopping = true
            if let continuation { stopWaiters.append(continuation) }
            for pool in pools.values { pool.close(within: limit) }
        }
    }

    private func refuse(_ submit: Submit) {
        let submission = Submission(submit, now: now, expiresAt: .never)
        while let index = submission.cursor.next() {
            completions.add(submission, index: index, kind: .unanswered(.poolClosed), mayHaveBeenProcessed: false)
        }
    }

    // Nobody may be left waiting: what came in while the loop ended is refused.
    private func end() {
        for command in inbox.closeAndTake() {
            switch command {
            case .makePool: break
            default: obey(command)
            }
        }
        completions.flush()
        for waiter in stopWaiters { waiter.resume() }
    }

    // MARK: What pools and connections need

    func makeConnection(in pool: Pool, isTrial: Bool) -> Connection {
        lastConnectionID += 1
        let connection = Connection(id: lastConnectionID, pool: pool, loop: self, isTrial: isTrial)
        connections[connection.id] = connection
        return connection
    }

    func forget(_ connection: Connection) {
        connections[connection.id] = nil
    }

    func remove(_ pool: Pool) {
        pools[pool.id] = nil
    }

    // Once per turn, however often the connection stopped reading in it.
    func readAgain(_ connection: Connection) {
        if connection.isUnread { return }
        connection.isUnread = true
        unread.append(connection)
    }

    func report(_ pool: PoolID, _ kind: PoolEvent.Kind, _ message: String) {
        events?(PoolEvent(pool: pool, kind: kind, message: message))
    }

    func watch(_ descriptor: Int32, _ events: UInt32, connection: UInt64) -> Int32? {
        control(EPOLL_CTL_ADD, descriptor, events, connection)
    }

    func rewatch(_ descriptor: Int32, _ events: UInt32, connection: UInt64) -> Int32? {
        control(EPOLL_CTL_MOD, descriptor, events, connection)
    }

    private func control(_ operation: Int32, _ descriptor: Int32, _ events: UInt32, _ mark: UInt64) -> Int32? {
        var event = unsafe epoll_event(events: events, data: epoll_data_t(u64: mark))
        return unsafe epoll_ctl(epoll, operation, descriptor, &event) == 0 ? nil : errno
    }
}

// Room for one TLS record of decrypted bytes, shared by the connections of a loop.
@safe
final class InputBuffer {
    private static let capacity = 16 * 1024
    let base: UnsafeMutablePointer<UInt8>

    init() {
        unsafe base = .allocate(capacity: InputBuffer.capacity)
        unsafe base.initialize(repeating: 0, count: InputBuffer.capacity)
    }

    deinit {
        unsafe base.deallocate()
    }

    func read(_ body: (inout MutableSpan<UInt8>) -> TLSResult) -> TLSResult {
        var span = unsafe UnsafeMutableBufferPointer(start: base, count: InputBuffer.capacity).mutableSpan
        return body(&span)
    }
}
