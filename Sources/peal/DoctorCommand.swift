import PealRuntime

extension Command {
    static let doctor = Command(
        "doctor",
        summary: "says what is wrong with this machine, the database, the credentials and the clock",
        discussion: "Changes nothing. Exit status 1 when there is a problem, 3 when the database cannot be reached.",
        options: [
            Option(flag: "accounting", "count every result that is kept against its job"),
            RowPrinter.formatOption,
        ],
        examples: [
            Example("peal doctor", "looks at everything that is quick"),
            Example("peal doctor --accounting", "and proves that every recipient is accounted for"),
        ]
    ) { arguments in
        let doctor = Doctor(settings: .fromEnvironment(), countsResults: arguments.flag("accounting"))
        let findings = await doctor.examine()
        if arguments.text("format") ?? "table" == "table" {
            try printForPeople(findings)
        } else {
            var printer = RowPrinter(columns: ["area", "verdict", "finding", "advice"], arguments: arguments)
            try printer.print(
                findings.map { finding in
                    [
                        .text(finding.area), .text(finding.verdict.rawValue), .text(finding.finding),
                        Cell(finding.advice.isEmpty ? nil : finding.advice),
                    ]
                }
            )
        }
        let problems = findings.filter { $0.verdict == .problem }
        if problems.isEmpty { return .success }
        let isUnreachable = !findings.contains { $0.area == "database" && $0.verdict == .ok }
        return isUnreachable ? .databaseUnreachable : .failure
    }
}

private func printForPeople(_ findings: [DoctorFinding]) throws(CommandError) {
    let width = findings.map(\.area.count).max() ?? 0
    for finding in findings {
        let verdict = finding.verdict.rawValue.padded(to: 7)
        try StandardOutput.line("\(verdict)  \(finding.area.padded(to: width))  \(finding.finding)")
        if !finding.advice.isEmpty {
            try StandardOutput.line("\("".padded(to: 7))  \("".padded(to: width))  -> \(finding.advice)")
        }
    }
}

extension String {
    fileprivate func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}
