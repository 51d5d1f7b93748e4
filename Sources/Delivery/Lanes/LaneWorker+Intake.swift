import HTTP2
import Postgres
import PushCore
import SQLText
import Telemetry

// Taking in: claim, look up, render, submit.
extension LaneWorker {
    func takeIn() async {
        var failures = 0
        let backoff = Backoff(first: .milliseconds(200), longest: .seconds(5))
        defer {
            isTakingIn = false
            inbox.signal.wake()
        }
        while !isStopping {
            let room = flushFailures > 0 ? nil : claimRoom()
            var found = 0
            // Until a claim shows that it left nothing behind.
            mayHaveLeft = true
            if let room, room.limit > 0 {
                do {
                    found = try await claim(room)
                    if failures > 0 { logger.info("Batches are claimed again") }
                    failures = 0
                } catch {
                    failures += 1
                    logger.log(
                        failures == 1 ? .warning : .debug,
                        "Batches cannot be claimed",
                        [.errorMessage: .text("\(error)"), .attempt: .number(failures)]
                    )
                }
            }
            if let room, found < room.limit, failures == 0 { mayHaveLeft = room.leavesBehind }
            if found > 0, mayHaveLeft { continue }
            let wait =
                failures > 0
                ? backoff.delay(afterFailures: failures, atLeast: .milliseconds(50))
                : settings.pollInterval * Double.random(in: 0.5...1)
            await intakeSignal.wait(until: .now + wait)
        }
    }

    func claimRoom() -> ClaimRoom {
        let now = ContinuousClock.now
        return ClaimRoom(
            batches.values.lazy.map { batch in
                ClaimRoom.Batch(
                    app: batch.row.app,
                    messages: batch.messagesInHand,
                    isSlow: now - batch.claimedAt > self.settings.slowAfter
                )
            },
            settings: settings,
            leavingOut: appsLeftToOthers(now: now)
        )
    }

    /// Claims batches and begins them. Returns how many there were.
    private func claim(_ room: ClaimRoom) async throws -> Int {
        let connection = try await reader.get()
        let claimedAt = ContinuousClock.now
        let window = aheadBudget().firstWindow(ofBatches: room.limit)
        // Until the batches are in hand, and count by themselves.
        reservedAhead = window * room.limit
        defer { reservedAhead = 0 }
        let lowest = floor.floor(now: claimedAt)
        let rows = try await connection.query(
            SQLText.deliveryClaimBatches[lane],
            [
                .int16(slot), .int64(settings.lease.wholeMillisecondsRoundedUp), .int32(Int32(room.limit)),
                .int64(lowest), .int32s(room.excludedApps.map(\.value)),
                .int32(Int32(clamping: window)),
            ]
        )
        let claimed = try rows.indices.map { try ClaimedBatch(rows, row: $0) }
            .sorted { ($0.tag, $0.id) < ($1.tag, $1.id) }
        floor.note(
            foundHidden: claimed.contains { $0.isReclaimed || floor.hides($0.tag, now: claimedAt) },
            from: lowest,
            ofAllApps: room.excludedApps.isEmpty,
            now: claimedAt
        )
        guard !claimed.isEmpty else { return 0 }
        clockOffset = try ClaimedBatch.serverTime(rows) - WallClock.now()
        if claimed.contains(where: \.isReclaimed) { loseFormerLeases(of: claimed) }
        try await begin(claimed, claimedAt: claimedAt, on: connection)
        if let newest = claimed.last { try await moveClock(to: newest.tag, on: connection) }
        return claimed.count
    }

    /// A batch in hand that was claimed again had lost its lease: a flush took longer than that. What it settled and did not
    /// write is in doubt like that of any other worker.
    private func loseFormerLeases(of claimed: [ClaimedBatch]) {
        let ids = Set(claimed.map(\.id))
        for batch in Array(batches.values) where ids.contains(batch.row.id) { lose(batch, count: batch.results.count) }
    }

    private func moveClock(to tag: Int64, on connection: PostgresConnection) async throws {
        let now = ContinuousClock.now
        if let clockMovedAt, now - clockMovedAt < .milliseconds(250) { return }
        clockMovedAt = now
        let rows = try await connection.query(
            SQLText.deliveryMoveLaneClock,
            [.int16(slot), .int16(lane.rawValue), .int64(tag)]
        )
        if !rows.isEmpty { floor.note(clock: try rows.int64(0, 0), now: now) }
    }

    /// Reads what batches need and begins each.
    private func begin(
        _ claimed: [ClaimedBatch],
        claimedAt: ContinuousClock.Instant,
        on connection: PostgresConnection
    ) async throws {
        let begun: [BatchInHand]
        do {
            let (rows, recipients) = try await lookUp(claimed, on: connection)
            for row in rows.indices {
                let job = try JobInHand(rows, row: row)
                if jobs[job.id] == nil { jobs[job.id] = job }
            }
            // All are in hand before the first is begun: leases are renewed while the others wait for their turn.
            begun = zip(claimed, recipients).map { row, recipients in
                let batch = adopt(row, claimedAt: claimedAt)
                batch.recipients = recipients
                return batch
            }
        } catch {
            giveBack(claimed, claimedAt: claimedAt, error: error)
            throw error
        }
        for batch in begun {
            do {
                try await begin(batch)
            } catch {
                giveBack(batch, error: error)
            }
        }
        inbox.signal.wake()
    }

    /// Up to this size batches are looked up together: alone, a statement for each costs more than its work.
    private static let togetherLimit = 16

    /// Reads the jobs of batches and the recipients of each, nil where its page is gone, in one round trip.
    private func lookUp(
        _ claimed: [ClaimedBatch],
        on connection: PostgresConnection
    ) async throws -> (jobs: PostgresRows, recipients: [Recipients?]) {
        // Of all of them, known or not: one that is known may be forgotten before the answer is here.
        let claimedJobs = Set(claimed.map(\.job.value))
        let isSmall = claimed.map { $0.size <= Self.togetherLimit && $0.audienceAt != nil }
        let small = claimed.indices.filter { isSmall[$0] }
        let large = claimed.indices.filter { !isSmall[$0] }
        let statements: [(SQLStatement, PostgresParameters)] = [
            (SQLText.deliveryReadJobs, [.uuids(Array(claimedJobs))]),
            (SQLText.deliveryLookUpRecipients, lookUpParameters(small.map { claimed[$0] })),
        ]
        let answers = try await connection.pipeline(
            statements + large.map { (SQLText.deliveryResolveRecipients, resolveParameters(claimed[$0])) }
        )
        var recipients = [Recipients?](repeating: nil, count: claimed.count)
        for (place, found) in try Recipients.together(answers[1]) { recipients[small[place]] = found }
        for (index, rows) in zip(large, answers.dropFirst(2)) { recipients[index] = try Recipients(rows) }
        return (answers[0], recipients)
    }

    private func lookUpParameters(_ rows: [ClaimedBatch]) -> PostgresParameters {
        [
            .uuids(rows.map(\.job.value)), .int32s(rows.map(\.pageNumber)), .int32s(rows.map(\.pageOffset)),
            .int32s(rows.map { Int32($0.size) }), .int32s(rows.map(\.app.value)),
            .timestamps(rows.compactMap(\.audienceAt)),
        ]
    }

    private func resolveParameters(_ row: ClaimedBatch) -> PostgresParameters {
        [
            .job(row.job), .int32(row.pageNumber), .int32(row.pageOffset), .int32(Int32(row.size)), .app(row.app),
            .timestamp(row.audienceAt),
        ]
    }

    private func adopt(_ row: ClaimedBatch, claimedAt: ContinuousClock.Instant) -> BatchInHand {
        lastNumber += 1
        let batch = BatchInHand(
            number: lastNumber,
            row: row,
            doubt: jobs[row.job]?.doubt ?? .resend,
            deadline: row.expiresAt - clockOffset,
            claimedAt: claimedAt,
            leaseSafeUntil: claimedAt + settings.lease * 3 / 4
        )
        adopt(batch)
        return batch
    }

    private func giveBack(_ claimed: [ClaimedBatch], claimedAt: ContinuousClock.Instant, error: any Error) {
        let known = Dictionary(uniqueKeysWithValues: batches.values.map { ($0.row.lease, $0) })
        for row in claimed { giveBack(known[row.lease] ?? adopt(row, claimedAt: claimedAt), error: error) }
    }

    /// A batch that could not be begun is anyone's again with the next flush. Trouble with the database does not make it
    /// a poisoned one.
    private func giveBack(_ batch: BatchInHand, error: any Error) {
        logger.warning(
            "A batch cannot be begun and goes back to the queue",
            [.batchID: .describing(batch.row.id), .errorMessage: .text("\(error)")]
        )
        if (error as? PostgresError)?.isRetryable ?? false { batch.hasProgress = true }
        withdraw(batch, .released)
        inbox.signal.wake()
    }

    private func begin(_ batch: BatchInHand) async throws {
        let row = batch.row
        logBegun(batch)
        guard batch.lifecycle.isSending else { return }
        if row.isPoisoned { return try await splitPoisoned(batch) }
        guard let job = jobs[row.job] else { return settleRest(batch, .rejected, reason: "job_missing") }
        // First of all: whatever becomes of the rest, these may have been sent.
        if job.doubt == .unknown { settleDoubtful(batch) }
        guard row.expiresAt > WallClock.now() + clockOffset else { return settleRest(batch, .expired, reason: "") }
        switch job.control {
        case .cancelled: return withdraw(batch, .cancelled)
        case .paused: return withdraw(batch, .held)
        case .runs: break
        }
        guard let recipients = batch.recipients, recipients.count == row.size else {
            return settleRest(batch, .rejected, reason: "page_missing")
        }
        guard case .success = job.content else { return settleRest(batch, .rejected, reason: "invalid_content") }
        guard let route = row.route else { return settleRest(batch, .rejected, reason: "unsupported_route") }
        switch try await store.credential(of: row.app, for: route) {
        case .usable(let credential): send(batch, with: credential)
        case .missing: settleRest(batch, .rejected, reason: "no_credential")
        case .unreadable(isWholeApp: true): leaveToOthers(batch)
        case .unreadable(isWholeApp: false):
            delay(batch, by: Self.unreadableWait, reason: "credential_unreadable")
        case .refused(let reason): endAfterRefusal(batch, reason: reason)
        }
    }

    /// What an earlier worker may have sent of a job that must never send twice.
    private func settleDoubtful(_ batch: BatchInHand) {
        var doubtful: [Int] = []
        batch.done.forEachUnset(in: 0..<min(batch.row.sentTo, batch.row.size)) { doubtful.append($0) }
        for index in doubtful { recordInDoubt(batch, index) }
    }

    /// Renders and submits a batch, as soon as there is a bearer.
    func send(_ batch: BatchInHand, with credential: ProviderCredential) {
        guard batch.lifecycle.isSending, batch.dispatch == nil else { return }
        if let hold = breakers[credential.version]?.heldUntil, hold > .now {
            let wait = hold - .now
            return delay(batch, by: wait, atLeast: wait, reason: "too_many_dead_tokens")
        }
        if let until = gates[credential.version]?.heldUntil {
            if until > .now { return delay(batch, by: until - .now, reason: APNsReason.expiredProviderToken) }
            gates[credential.version] = nil
        }
        if isHeld(batch, by: credential, now: .now) { return }
        if let reason = gates[credential.version]?.closedReason { return endAfterRefusal(batch, reason: reason) }
        guard let bearer = bearers[credential.version], bearer.expiresAt > WallClock.now() else {
            batch.awaited = credential
            return run(.fetch(credential))
        }
        batch.awaited = nil
        do {
            try dispatch(batch, credential: credential, bearer: bearer)
        } catch {
            giveBack(batch, error: error)
        }
    }

    private func dispatch(_ batch: BatchInHand, credential: ProviderCredential, bearer: Bearer) throws {
        guard let route = batch.row.route, let recipients = batch.recipients,
            let templates = jobs[batch.row.job]?.templates(for: credential, route: route)
        else { return }
        let built = try RequestBuilder(
            job: batch.row.job,
            route: route,
            credential: credential,
            templates: templates,
            deadline: batch.deadline,
            timeLimit: settings.requestTimeLimit
        ).build(recipients, done: batch.done)
        for skip in built.skipped {
            record(batch, skip.index, .skipped, status: 0, reason: reasons.index(of: skip.reason))
        }
        if let requests = built.requests {
            batch.dispatch = BatchInHand.Dispatch(
                credential: credential,
                pool: try pools.pool(for: credential, bearer: bearer),
                requests: requests,
                hasOwnTopic: jobs[batch.row.job]?.hasOwnTopic(on: credential) ?? false,
                recipientOf: built.recipientOf
            )
        }
        advance(batch)
    }

    /// Splits a batch that was claimed again and again without an outcome; the last single recipient is given up.
    private func splitPoisoned(_ batch: BatchInHand) async throws {
        let row = batch.row
        logger.warning(
            "A batch was claimed again and again and nothing of it was settled",
            [.batchID: .describing(row.id), .jobID: .describing(row.job), .batchSize: .number(row.size)]
        )
        guard row.size > 1 else {
            let outcome: RecipientOutcome = row.sentTo > 0 ? .unknown : .rejected
            record(batch, 0, outcome, status: 0, reason: reasons.index(of: "quarantined"))
            return advance(batch)
        }
        let half = row.size / 2
        let connection = try await reader.get()
        _ = try await connection.query(
            SQLText.deliverySplitBatch[lane],
            [
                .int16(slot), .batch(row.id), .lease(row.lease), .int32(Int32(half)),
                .bytes(row.done.slice(0..<half).bytes), .bytes(row.done.slice(half..<row.size).bytes),
            ]
        )
        withdraw(batch, .lost)
    }
}
