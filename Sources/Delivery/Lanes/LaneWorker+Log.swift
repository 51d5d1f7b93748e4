import HTTP2
import OpenSSL
import PushCore
import Telemetry

// What an operator can follow at debug (per batch and flush) and at trace (per message). Where the level is higher, each
// costs one comparison; no line ever holds a token or a payload.
extension LaneWorker {
    func logBegun(_ batch: BatchInHand) {
        logger.debug(
            "A batch was claimed",
            [
                .batchID: .describing(batch.row.id), .jobID: .describing(batch.row.job),
                .appID: .describing(batch.row.app), .route: .number(batch.row.routeNumber),
                .batchSize: .number(batch.row.size), .remaining: .number(batch.remaining),
                .attempt: .number(batch.row.attempt),
            ]
        )
    }

    func logSettled(
        _ batch: BatchInHand,
        _ index: Int,
        _ outcome: RecipientOutcome,
        status: Int,
        reason: ReasonTable.Index
    ) {
        logger.trace(
            "A message has its outcome",
            [
                .batchID: .describing(batch.row.id), .jobID: .describing(batch.row.job),
                .deviceID: .number(batch.device(of: index)), .tokenHash: .text(tokenHash(of: index, in: batch)),
                .outcome: .text("\(outcome)"), .httpStatus: .number(status),
                .providerReason: .text(reasons[reason]), .attempt: .number(batch.row.attempt),
            ]
        )
    }

    func logFlushed(_ plan: FlushPlan, startedAt: ContinuousClock.Instant) {
        guard plan.resultCount > 0 || plan.hasDelays else { return }
        logger.debug(
            "Results were written",
            [
                .count: .number(plan.resultCount), .outcome: .text(plan.outcomes),
                .durationMilliseconds: .milliseconds(.now - startedAt),
            ]
        )
    }

    /// The first 8 digits of its SHA-256: enough to find a token again, nothing to send to.
    private func tokenHash(of index: Int, in batch: BatchInHand) -> String {
        guard let token = try? batch.recipients?.token(of: index) else { return "" }
        return Hex.encode(sha256(token).prefix(4))
    }
}

extension FlushPlan {
    /// How many recipients got which outcome and reason, such as `accepted 490, rejected BadDeviceToken 2`.
    fileprivate var outcomes: String {
        var kinds: [String: Int] = [:]
        for unit in units {
            for entry in unit.results.entries {
                let reason = reasons[entry.kind.reason]
                kinds["\(entry.kind.outcome)\(reason.isEmpty ? "" : " \(reason)")", default: 0] += 1
            }
        }
        return kinds.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}
