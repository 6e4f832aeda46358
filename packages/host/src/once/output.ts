/** A stream of text for people or scripts. Whoever runs a command hands it in. */
export interface Output {
  write(text: string): void;
  /** Colours and progress lines only on a terminal. */
  readonly isTerminal: boolean;
  /** Width of the terminal in columns; `undefined` elsewhere. */
  readonly columns: number | undefined;
  /** How control sequences of the program begin, where all others are escaped. Default `ESC [`. */
  readonly sequence?: string;
}
