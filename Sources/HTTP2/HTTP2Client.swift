internal import CLinux
internal import Glibc
internal import Synchronization
internal import Threads

/// A fast HTTP/2 client: one thread with one event loop, and pools of TLS connections on it.
///
/// This is the door: `Sendable`, and nothing behind it is. Requests go in by the batch, completions come back by the
/// chunk, one per turn of the loop. Every request that was submitted comes back exactly once, whatever happens.
///
/// What was surely not processed (refused streams, streams above a GOAWAY's last id, requests that never left the
/// machine when their connection ended) goes out again by itself, at most a hundred times.
package final class HTTP2Client: Sendable {
    private let inbox: Inbox
    private let sink: @Sendable (CompletionChunk) -> Void
    private let lastPool = Atomic(0)

    /// Starts the client's thread.
    ///
    /// - Parameters:
    ///   - name: the thread's name, at most 15 characters are seen.
    ///   - names: how the hosts of pools are looked up.
    ///   - events: told of connections that come and go, on the loop's thread; must not block.
    ///   - sink: gets the completions, on the loop's thread; must not block.
    /// - Throws: `HTTP2Error` (`systemFailed`) when the kernel refuses descriptors or a thread.
    package init(
        name: String = "peal-http2",
        names: NameLookUp = .system,
        events: (@Sendable (PoolEvent) -> Void)? = nil,
        sink: @escaping @Sendable (CompletionChunk) -> Void
    ) throws(HTTP2Error) {
        let inbox = try Inbox()
        self.inbox = inbox
        self.sink = sink
        guard let resolver = Resolver(names) else {
            throw HTTP2Error(.systemFailed, "No eventfd for the HTTP/2 client's look-ups: \(errorText(errno))")
        }
        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else {
            throw HTTP2Error(.systemFailed, "No epoll for the HTTP/2 client: \(errorText(errno))")
        }
        let code = Thread.start(name: name) {
            EventLoop(inbox: inbox, resolver: resolver, epoll: epoll, events: events, sink: sink).run()
        }
        guard code == 0 else {
            close(epoll)
            throw HTTP2Error(.systemFailed, "No thread for the HTTP/2 client: \(errorText(code))")
        }
    }

    deinit {
        _ = inbox.post(.stop(within: .zero, nil))
    }

    // MARK: Pools

    /// Makes a pool. It connects at once when it is to keep a minimum of connections, else with the first request.
    package func makePool(_ configuration: PoolConfiguration) -> PoolID {
        let id = PoolID(number: lastPool.add(1, ordering: .relaxed).newValue)
        _ = inbox.post(.makePool(id, configuration))
        return id
    }

    /// Sets a header field that all requests of a pool carry, such as `authorization`; requests framed later have the new value.
    ///
    /// - Parameter isIndexed: whether the peer may keep the field in the connection's table, so that a request costs a
    ///   byte for it instead of its whole value. False sends it with each request and forbids every machine on the way to
    ///   keep it: what RFC 7541 (7.1.3) asks for secrets that can be guessed, and what Apple asks for `authorization`. A
    ///   bearer token of Google holds far too much chance to be guessed from sizes, so that the same section lets it be
    ///   kept; at a thousand characters a request that is most of the header.
    /// - Throws: `HTTP2Error` (`invalidField`) when name or value hold bytes that HTTP does not allow.
    package func setField(
        _ name: String,
        value: [UInt8],
        isIndexed: Bool = false,
        of pool: PoolID
    ) throws(HTTP2Error) {
        guard FieldText.isName(name.utf8), FieldText.isValue(value.span) else {
            throw HTTP2Error(.invalidField, "The header field \(name) holds a character that HTTP forbids")
        }
        let field = PoolFields.Field(name: Array(name.utf8), value: value, isIndexed: isIndexed)
        _ = inbox.post(.setField(pool, field))
    }

    /// Tells a pool that the peer asked for less (429, 503): each connection halves its streams and grows again slowly.
    package func reportOverload(_ pool: PoolID) {
        _ = inbox.post(.reportOverload(pool))
    }

    /// Lets the pool's connections finish what is out and sends everything else over new ones.
    package func renewConnections(of pool: PoolID) {
        _ = inbox.post(.renewConnections(pool))
    }

    /// Closes a pool. What waits comes back as `unanswered(.poolClosed)`, what is out may finish within the limit.
    package func closePool(_ pool: PoolID, within limit: Duration) {
        _ = inbox.post(.closePool(pool, within: limit))
    }

    /// What a pool is doing now; nil when it is closed.
    package func status(of pool: PoolID) async -> PoolStatus? {
        await withCheckedContinuation { continuation in
            if !inbox.post(.status(pool, continuation)) { continuation.resume(returning: nil) }
        }
    }

    // MARK: Requests

    /// Sends requests of a batch. One hand-over, whatever their number.
    ///
    /// - Parameters:
    ///   - tag: the caller's number of the batch; completions carry it, and `cancel` goes by it.
    ///   - requests: which of the batch's requests, each at most once; indices beyond the batch stop the program.
    ///
    /// After `stop`, and for a closed pool, they come back as `unanswered(.poolClosed)`.
    package func submit(_ batch: RequestBatch, tag: Int, requests: RequestSelection = .all, to pool: PoolID) {
        let submit = Submit(batch: batch, tag: tag, selection: requests, pool: pool, single: nil)
        if !inbox.post(.submit(submit)) { refuse(submit) }
    }

    /// Takes back what is not framed yet of all batches with this tag: it comes back as `cancelled`. What is out finishes.
    package func cancel(tag: Int) {
        _ = inbox.post(.cancel(tag: tag))
    }

    /// Sends the only request of a batch and waits for its answer; the batch's limits and the pool's patience bound the wait.
    ///
    /// For rare requests, such as the exchange of an OAuth token: it costs a task switch each way.
    ///
    /// - Throws: `HTTP2Error`, `unanswered` or `notSent`; the text says what went wrong last with the pool's connections.
    package func send(_ batch: RequestBatch, to pool: PoolID) async throws(HTTP2Error) -> Response {
        precondition(batch.count == 1, "send takes a batch of one request, not of \(batch.count)")
        let result: Result<Response, HTTP2Error> = await withCheckedContinuation { continuation in
            let submit = Submit(batch: batch, tag: -1, selection: .all, pool: pool, single: continuation)
            if !inbox.post(.submit(submit)) { refuse(submit) }
        }
        guard case .failure(let error) = result, case .unanswered = error.code,
            let trouble = await status(of: pool)?.lastError
        else { return try result.get() }
        throw HTTP2Error(error.code, "\(error.message): \(trouble)")
    }

    /// Stops the client: what waits comes back, what is out may finish within the limit. Returns when the thread is done.
    package func stop(within limit: Duration) async {
        await withCheckedContinuation { continuation in
            if !inbox.post(.stop(within: limit, continuation)) { continuation.resume() }
        }
    }

    private func refuse(_ submit: Submit) {
        let completions = CompletionWriter(sink: sink)
        let submission = Submission(submit, now: .longAgo, expiresAt: .never)
        while let index = submission.cursor.next() {
            completions.add(submission, index: index, kind: .unanswered(.poolClosed), mayHaveBeenProcessed: false)
        }
        completions.flush()
    }
}
