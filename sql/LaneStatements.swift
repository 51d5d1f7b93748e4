package import PushCore

/// A statement on `peal.batch_campaign` and its twins on the partitions of the other lanes.
///
/// A statement that names its partition keeps its plan; one that goes through the parent is planned at each call, which
/// costs more than a claim itself.
package struct LaneStatements: Sendable {
    private let call: SQLStatement
    private let transactional: SQLStatement
    private let campaign: SQLStatement

    init(_ statement: SQLStatement) {
        campaign = statement
        call = Self.twin(of: statement, lane: .call)
        transactional = Self.twin(of: statement, lane: .transactional)
    }

    /// The statement on the partition of a lane.
    package subscript(lane: Lane) -> SQLStatement {
        switch lane {
        case .call: call
        case .transactional: transactional
        case .campaign: campaign
        }
    }

    private static func twin(of statement: SQLStatement, lane: Lane) -> SQLStatement {
        let text = statement.text.split(separator: "peal.batch_campaign", omittingEmptySubsequences: false)
            .joined(separator: "peal.batch_\(lane.name)")
        return SQLStatement(name: "\(statement.name)_\(lane.name)", text: text)
    }
}
