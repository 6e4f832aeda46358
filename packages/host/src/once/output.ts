/** An output stream for people or scripts. The caller of a command provides it. */
export interface Output {
  write(text: string): void;
  /** Colours and progress lines only on a terminal. */
  readonly isTerminal: boolean;
  /** Width of the terminal in columns; `undefined` elsewhere. */
  readonly columns: number | undefined;
  /** Prefix of the program's own control sequences, where all others are escaped. Default `ESC [`. */
  readonly sequence?: string;
}
