<?php

/**
 * Pepper for PHP 8.1 and newer, in one file: copy it, define three constants, call.
 *
 *     define('PEPPER_URL', 'https://gateway.example.it');      // the address of Pepper, with or without /api.php
 *     define('PEPPER_PROGETTO', 'negozio');
 *     define('PEPPER_KEY', getenv('NEGOZIO_PEPPER_KEY'));      // not in the code
 *     require_once __DIR__ . '/pepper-client.php';
 *
 *     echo pepper('riassumi', $testo)['risposta'];
 *
 * It needs the extensions curl and json. Every function gives the decoded reply, whose `ok` is true, or throws a
 * PepperException; it prints nothing and keeps no state but the copy of pepper_capacita().
 *
 * Replies 429, 502 and 503, and connections that broke before anything of an answer had come, are asked again up to
 * three times: after the `Retry-After` of the reply (given up if it is above 60 seconds), else after about 1, 2 and 4
 * seconds. All attempts of a call carry the same `Idempotency-Key`, so nothing is paid twice. Handing in deferred work
 * is never repeated, because for it there is no such key.
 */

declare(strict_types=1);

/**
 * Does one piece of work.
 *
 * @param string        $encode        The recipe: riassumi, correggi, estrai, classifica, libero...
 * @param string        $contenuto     The text, in UTF-8.
 * @param string|null   $conversazione 'nuova' opens a conversation, an id continues it.
 * @param array         $extra         Parameters of the recipe, such as ['lingua' => 'en'].
 * @param array         $documenti     PDFs and photos: paths, https addresses, or entries as the contract has them
 *                                     (['nome' => ..., 'dati' => ...]). A string key is the name to send:
 *                                     ['verbale.pdf' => $_FILES['verbale']['tmp_name']].
 * @param callable|null $aPezzi        Gets the answer piece by piece while it is written: function (string $pezzo).
 * @param string|null   $idempotenza   An Idempotency-Key of your own, to be able to ask again later, in another
 *                                     process too, without paying twice; without it each call makes one.
 *
 * @return array{ok: true, risposta: string, conversazione: ?string, meta: array<string, mixed>}
 *
 * @throws PepperException
 */
function pepper(
    string $encode,
    string $contenuto,
    ?string $conversazione = null,
    array $extra = [],
    array $documenti = [],
    ?callable $aPezzi = null,
    ?string $idempotenza = null,
): array {
    $campi = ['encode' => $encode, 'contenuto' => $contenuto];
    if ($conversazione !== null) {
        $campi['conversazione'] = $conversazione;
    }
    if ($aPezzi !== null) {
        $campi['stream'] = true;
    }
    $campi += PepperAllegati::campi($extra, $documenti);

    return PepperRichiesta::ripetibile('api.php', $campi, $idempotenza, $aPezzi)->risposta('risposta');
}

/**
 * Hands in work that can wait, at half the price, and gives its number: the receipt, to be stored.
 *
 * It is sent once. When it ends with `risposta_interrotta`, `nessuna_risposta` or `tempo_scaduto`, the work may have
 * been taken in all the same, and handing it in again would be work done and paid twice.
 *
 * @param string|string[] $contenuti One text, or up to 100.
 * @param array           $documenti As with pepper(); only with one text given as a string.
 *
 * @return string Such as 'prt_a1b2c3d4e5f6'.
 *
 * @throws PepperException
 */
function pepper_differito(string $encode, string|array $contenuti, array $extra = [], array $documenti = []): string
{
    $testi = is_string($contenuti) ? ['contenuto' => $contenuti] : ['contenuti' => array_values($contenuti)];
    $campi = ['encode' => $encode, 'modo' => 'differito'] + $testi + PepperAllegati::campi($extra, $documenti);

    return PepperRichiesta::unica('api.php', $campi)->risposta('pratica')['pratica'];
}

/**
 * Asks what became of deferred work: 'stato' is in_corso, pronta, fallita or scaduta, 'risposte' come in the order of
 * the texts. Pepper looks no more than once in 20 seconds.
 *
 * @throws PepperException
 */
function pepper_pratica(string $pratica): array
{
    return PepperRichiesta::ripetibile('pratica.php', ['pratica' => $pratica])->risposta();
}

/**
 * Gives what Pepper can do for this project: 'puo', 'ricette', 'limiti'... The reply is kept for a day, in a file of
 * the system's temporary folder that nobody else can read; what is `spesa` there is as old as the file.
 *
 * @param bool $aggiorna Ask now, whatever is kept.
 *
 * @throws PepperException
 */
function pepper_capacita(bool $aggiorna = false): array
{
    $copia = new PepperCopia();
    $tenuta = $aggiorna ? null : $copia->leggi();
    if ($tenuta !== null) {
        return $tenuta;
    }
    $risposta = PepperRichiesta::ripetibile('capacita.php', [])->risposta();
    $copia->scrivi($risposta);
    return $risposta;
}

/**
 * Puts a text into the project's knowledge; one of the same name is replaced.
 *
 * @return array{ok: true, id: int, nome: string, pezzi: int, sostituito: bool}
 *
 * @throws PepperException
 */
function pepper_conoscenza_carica(string $nome, string $testo): array
{
    return PepperRichiesta::ripetibile(
        'conoscenza.php',
        ['azione' => 'carica', 'nome' => $nome, 'testo' => $testo],
    )->risposta();
}

/**
 * Lists the project's knowledge.
 *
 * @return array{ok: true, documenti: list<array<string, mixed>>, pezzi: int}
 *
 * @throws PepperException
 */
function pepper_conoscenza_elenco(): array
{
    return PepperRichiesta::ripetibile('conoscenza.php', ['azione' => 'elenco'])->risposta();
}

/**
 * Takes a document out of the project's knowledge.
 *
 * @param int $id As pepper_conoscenza_carica() and pepper_conoscenza_elenco() give it.
 *
 * @throws PepperException
 */
function pepper_conoscenza_togli(int $id): array
{
    return PepperRichiesta::ripetibile('conoscenza.php', ['azione' => 'togli', 'documento' => $id])->risposta();
}

/**
 * A call that ended without an answer.
 *
 * Besides Pepper's codes there are those of this side: `configurazione` (a constant is missing or wrong),
 * `nessuna_risposta` (no connection, or one that broke), `tempo_scaduto`, `risposta_interrotta` (an answer that stopped
 * half way) and `risposta_estranea` (somebody answered, but not Pepper: a proxy, another site).
 */
final class PepperException extends RuntimeException
{
    /**
     * @param string      $codice      What to decide by.
     * @param bool        $riprovabile Whether the same call may succeed later, unchanged.
     * @param int         $stato       HTTP status; 0 when none came, 200 for an error inside of an answer in pieces.
     * @param int|null    $dopo        Seconds after which Pepper says that it makes sense to ask again.
     * @param string|null $richiesta   Pepper's id of the request, for who looks into it.
     * @param string|null $idempotenza The Idempotency-Key used: asked again with it, pepper() pays nothing twice.
     */
    public function __construct(
        public readonly string $codice,
        string $messaggio,
        public readonly bool $riprovabile = false,
        public readonly int $stato = 0,
        public readonly ?int $dopo = null,
        public readonly ?string $richiesta = null,
        public readonly ?string $idempotenza = null,
        ?Throwable $causa = null,
    ) {
        parent::__construct("Pepper: $messaggio ($codice)", $stato, $causa);
    }
}

/**
 * One request with its repeats.
 *
 * @internal
 */
final class PepperRichiesta
{
    private const STATI_RIPROVABILI = [429, 502, 503];
    /** Waiting mends none of these: the time is over, or somebody has to do something. */
    private const CODICI_SENZA_RIMEDIO = ['tempo_scaduto', 'troppi_documenti', 'conoscenza_senza_chiave'];
    private const CODICI_RIPROVABILI = [
        'troppe_richieste', 'budget_esaurito', 'troppe_pratiche',
        'errore_ai', 'ai_non_disponibile', 'conoscenza_senza_chiave', 'servizio_non_disponibile',
    ];
    private const SECONDI = 300;
    private const SECONDI_CONNESSIONE = 10;
    private const SECONDI_SILENZIO = 60;  // in an answer in pieces something comes every 15
    private const ATTESE = [1.0, 2.0, 4.0];
    private const ATTESA_MASSIMA = 60;
    private const ERRORI_CHE_RESTANO = [
        CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_SSL_CACERT, CURLE_SSL_CERTPROBLEM,
    ];

    private int $stato = 0;
    private ?int $dopo = null;
    private ?string $richiesta = null;
    private bool $pezzi = false;      // whether the reply comes in pieces
    private bool $consegnato = false; // whether the caller has got some of them
    private string $corpo = '';
    private ?PepperEventi $eventi = null;
    private ?array $fine = null;
    private ?array $errore = null;
    private ?Throwable $altrui = null;

    private function __construct(
        private readonly string $indirizzo,
        private readonly string $invio,
        private readonly ?string $chiave,
        private readonly ?Closure $aPezzi,
    ) {
    }

    public static function ripetibile(
        string $file,
        array $campi,
        ?string $chiave = null,
        ?callable $aPezzi = null,
    ): self {
        if ($chiave !== null && preg_match('/^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/D', $chiave) !== 1) {
            throw new PepperException(
                'richiesta_non_valida',
                'idempotenza vuole da 1 a 255 caratteri ASCII stampabili',
            );
        }
        $aPezzi = $aPezzi === null ? null : Closure::fromCallable($aPezzi);
        return self::pronta($file, $campi, $chiave ?? bin2hex(random_bytes(16)), $aPezzi);
    }

    public static function unica(string $file, array $campi): self
    {
        return self::pronta($file, $campi, null, null);
    }

    private static function pronta(string $file, array $campi, ?string $chiave, ?Closure $aPezzi): self
    {
        PepperProgetto::controlla();
        try {
            $invio = json_encode(
                ['progetto' => PEPPER_PROGETTO] + $campi,
                JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES,
            );
        } catch (JsonException $e) {
            throw new PepperException(
                'richiesta_non_valida',
                'la richiesta non si può scrivere in JSON, di solito perché un testo non è in UTF-8: ' . $e->getMessage(),
            );
        }
        return new self(PepperProgetto::base() . "/$file", $invio, $chiave, $aPezzi);
    }

    /** Asks, again where that makes sense, and gives the reply, in which the field named is a string. */
    public function risposta(?string $campo = null): array
    {
        $entro = hrtime(true) / 1e9 + self::SECONDI;
        foreach ([...self::ATTESE, null] as $attesa) {
            try {
                $risposta = $this->tentativo();
                return $campo === null || is_string($risposta[$campo] ?? null) ? $risposta : throw $this->estranea();
            } catch (PepperException $e) {
                // A call whose time is over has had all of it; of an answer that began the caller has a part.
                $inutile = in_array($e->codice, self::CODICI_SENZA_RIMEDIO, true);
                $definitiva = !$e->riprovabile || $inutile || $this->consegnato;
                if ($definitiva || $this->chiave === null || $attesa === null) {
                    throw $e;
                }
                $attesa = $e->dopo ?? $attesa * mt_rand(80, 120) / 100;
                if ($attesa > self::ATTESA_MASSIMA || hrtime(true) / 1e9 + $attesa > $entro) {
                    throw $e;
                }
            }
            usleep((int) ($attesa * 1e6));
        }
        throw new LogicException('the last attempt throws');
    }

    private function tentativo(): array
    {
        $this->nuova();
        $curl = $this->pronto();
        $riuscita = curl_exec($curl) !== false;
        if ($this->altrui !== null) {
            throw $this->altrui;
        }
        if ($this->fine !== null) {
            return $this->fine;
        }
        if ($this->errore !== null) {
            throw $this->detto($this->errore);
        }
        if ($riuscita && $this->pezzi) {
            throw $this->senzaFine();
        }
        // A refusal may be here whole although the connection broke on what was still being sent.
        if ($riuscita || is_array(json_decode($this->corpo, true))) {
            return $this->intera();
        }
        throw $this->interrotta($curl);
    }

    private function pronto(): CurlHandle
    {
        $intestazioni = ['Content-Type: application/json', 'Accept: application/json, text/event-stream', 'Expect:'];
        $intestazioni[] = 'X-Pepper-Key: ' . PEPPER_KEY;
        if ($this->chiave !== null) {
            $intestazioni[] = "Idempotency-Key: $this->chiave";
        }
        $curl = curl_init($this->indirizzo);
        curl_setopt_array($curl, [
            CURLOPT_POST => true,
            CURLOPT_POSTFIELDS => $this->invio,
            CURLOPT_HTTPHEADER => $intestazioni,
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
            CURLOPT_FOLLOWLOCATION => false,  // the key goes nowhere else
            CURLOPT_CONNECTTIMEOUT => self::SECONDI_CONNESSIONE,
            CURLOPT_TIMEOUT => self::SECONDI,
            CURLOPT_NOSIGNAL => true,
            CURLOPT_HEADERFUNCTION => fn (CurlHandle $_, string $riga): int => $this->intestazione($riga),
            CURLOPT_WRITEFUNCTION => fn (CurlHandle $_, string $byte): int => $this->arriva($byte),
        ]);
        if ($this->aPezzi !== null) {
            curl_setopt($curl, CURLOPT_LOW_SPEED_LIMIT, 1);
            curl_setopt($curl, CURLOPT_LOW_SPEED_TIME, self::SECONDI_SILENZIO);
        }
        return $curl;
    }

    private function nuova(): void
    {
        $this->stato = 0;
        $this->dopo = $this->richiesta = $this->fine = $this->errore = null;
        $this->pezzi = false;
        $this->corpo = '';
        $this->eventi = null;
    }

    private function intestazione(string $riga): int
    {
        if (preg_match('#^HTTP/\S+ (\d{3})#i', $riga, $trovato) === 1) {
            $this->nuova();  // what a proxy or a 100 said before is not the reply's
            $this->stato = (int) $trovato[1];
        } elseif (preg_match('/^([a-z-]+):\s*(.*?)\s*$/iD', $riga, $trovato) === 1) {
            match (strtolower($trovato[1])) {
                'content-type' => $this->pezzi = $this->aPezzi !== null && $this->stato === 200
                    && stripos($trovato[2], 'text/event-stream') === 0,
                'retry-after' => $this->dopo = self::secondi($trovato[2]),
                'x-request-id' => $this->richiesta = $trovato[2],
                default => null,
            };
        }
        return strlen($riga);
    }

    private static function secondi(string $valore): ?int
    {
        if (preg_match('/^\d{1,9}$/D', $valore) === 1) {
            return (int) $valore;
        }
        $istante = strtotime($valore);
        return $istante === false ? null : max(0, $istante - time());
    }

    /** Takes bytes of the reply; any other number than theirs ends it. */
    private function arriva(string $byte): int
    {
        if (!$this->pezzi) {
            $this->corpo .= $byte;
            return strlen($byte);
        }
        $this->eventi ??= new PepperEventi();
        foreach ($this->eventi->leggi($byte) as [$nome, $dati]) {
            $dati = json_decode($dati, true);
            if ($nome === 'delta' && is_string($dati['text'] ?? null)) {
                if (!$this->consegna($dati['text'])) {
                    return 0;
                }
            } elseif ($nome === 'done' && is_array($dati)) {
                $this->fine = $dati;
                return 0;
            } elseif ($nome === 'error') {
                $this->errore = is_array($dati) ? $dati : [];
                return 0;
            }
        }
        return strlen($byte);
    }

    private function consegna(string $pezzo): bool
    {
        $this->consegnato = true;
        try {
            ($this->aPezzi)($pezzo);
            return true;
        } catch (Throwable $e) {  // the caller's own: it must not travel through curl
            $this->altrui = $e;
            return false;
        }
    }

    private function intera(): array
    {
        $risposta = json_decode($this->corpo, true);
        if (is_array($risposta) && ($risposta['ok'] ?? null) === true && intdiv($this->stato, 100) === 2) {
            if ($this->aPezzi !== null && is_string($risposta['risposta'] ?? null)) {
                if (!$this->consegna($risposta['risposta'])) {
                    throw $this->altrui;
                }
            }
            return $risposta;
        }
        $errore = is_array($risposta) ? $risposta['errore'] ?? null : null;
        if (is_array($errore) && is_string($errore['codice'] ?? null)) {
            throw $this->detto($errore);
        }
        if ($this->stato === 504) {
            throw $this->caduta('tempo_scaduto', 'chi sta in mezzo non ha aspettato la risposta');
        }
        throw $this->estranea();
    }

    private function estranea(): PepperException
    {
        $messaggio = "chi ha risposto (HTTP $this->stato) non è Pepper: controllare PEPPER_URL e quello che sta in mezzo";
        $riprovabile = $this->chiave !== null && in_array($this->stato, self::STATI_RIPROVABILI, true);
        return $this->caduta('risposta_estranea', $messaggio, $riprovabile, $this->dopo);
    }

    private function detto(array $errore): PepperException
    {
        $codice = is_string($errore['codice'] ?? null) ? $errore['codice'] : 'risposta_estranea';
        return new PepperException(
            $codice,
            is_string($errore['messaggio'] ?? null) ? $errore['messaggio'] : 'errore senza messaggio',
            $this->stato === 200
                ? in_array($codice, self::CODICI_RIPROVABILI, true)
                : in_array($this->stato, self::STATI_RIPROVABILI, true),
            $this->stato,
            $this->dopo,
            $this->richiesta,
            $this->chiave,
        );
    }

    private function interrotta(CurlHandle $curl): PepperException
    {
        $numero = curl_errno($curl);
        $spedita = curl_getinfo($curl, CURLINFO_PRETRANSFER_TIME_T) > 0;
        if ($numero === CURLE_OPERATION_TIMEDOUT && $spedita) {
            return $this->caduta('tempo_scaduto', 'la risposta non è arrivata in tempo');
        }
        if ($this->stato !== 0) {
            return $this->senzaFine();
        }
        $perche = curl_strerror($numero) ?? "errore $numero";
        $vana = in_array($numero, self::ERRORI_CHE_RESTANO, true);
        return $this->caduta('nessuna_risposta', "non risponde: $perche", !$vana && (!$spedita || $this->chiave !== null));
    }

    private function senzaFine(): PepperException
    {
        return $this->caduta('risposta_interrotta', 'la risposta si è interrotta prima della fine');
    }

    /** What nobody knows the end of makes sense again only under a key. */
    private function caduta(
        string $codice,
        string $messaggio,
        ?bool $riprovabile = null,
        ?int $dopo = null,
    ): PepperException {
        return new PepperException(
            $codice,
            $messaggio,
            $riprovabile ?? $this->chiave !== null,
            $this->stato,
            $dopo,
            $this->richiesta,
            $this->chiave,
        );
    }
}

/**
 * Server-sent events out of bytes that come in any portions.
 *
 * @internal
 */
final class PepperEventi
{
    private string $riga = '';
    private string $nome = '';
    private array $dati = [];
    private bool $prima = true;        // the first line, which may begin with a byte order mark
    private bool $dopoRitorno = false; // a line ended with CR: an LF right after it belongs to it

    /** @return list<array{string, string}> Name and data of each event that is whole. */
    public function leggi(string $byte): array
    {
        $eventi = [];
        $fine = strlen($byte);
        for ($da = 0; $da < $fine;) {
            if ($this->dopoRitorno) {
                $this->dopoRitorno = false;
                if ($byte[$da] === "\n") {
                    ++$da;
                    continue;
                }
            }
            $quanti = strcspn($byte, "\r\n", $da);
            $this->riga .= substr($byte, $da, $quanti);
            $da += $quanti;
            if ($da < $fine) {
                $this->dopoRitorno = $byte[$da] === "\r";
                ++$da;
                $evento = $this->riga();
                if ($evento !== null) {
                    $eventi[] = $evento;
                }
            }
        }
        return $eventi;
    }

    private function riga(): ?array
    {
        $riga = $this->riga;
        $this->riga = '';
        if ($this->prima) {
            $this->prima = false;
            $riga = str_starts_with($riga, "\u{FEFF}") ? substr($riga, 3) : $riga;
        }
        if ($riga === '') {
            $evento = $this->dati === [] ? null : [$this->nome, implode("\n", $this->dati)];
            $this->nome = '';
            $this->dati = [];
            return $evento;
        }
        [$campo, $valore] = explode(':', $riga, 2) + [1 => ''];
        $valore = str_starts_with($valore, ' ') ? substr($valore, 1) : $valore;
        if ($campo === 'event') {
            $this->nome = $valore;
        } elseif ($campo === 'data') {
            $this->dati[] = $valore;
        }
        return null;  // comments, whose field has no name, and fields unknown here
    }
}

/**
 * The optional fields of a request that need some work.
 *
 * @internal
 */
final class PepperAllegati
{
    private const BYTE_MASSIMI = 20 * 1024 * 1024;  // of all files together; Pepper would refuse them anyway

    public static function campi(array $extra, array $documenti): array
    {
        $campi = [];
        if ($extra !== []) {
            $campi['extra'] = $extra;
        }
        $resto = self::BYTE_MASSIMI;
        foreach ($documenti as $nome => $documento) {
            $campi['documenti'][] = match (true) {
                is_array($documento) => $documento,
                is_string($documento) => self::voce($documento, is_string($nome) ? $nome : null, $resto),
                default => throw self::errore('documenti vuole percorsi, indirizzi o voci con nome e dati'),
            };
        }
        return $campi;
    }

    private static function voce(string $dove, ?string $nome, int &$resto): array
    {
        if (preg_match('#^https?://#i', $dove) === 1) {
            $percorso = (string) parse_url($dove, PHP_URL_PATH);
            return ['nome' => $nome ?? (rawurldecode(basename($percorso)) ?: 'documento'), 'url' => $dove];
        }
        $nome ??= basename($dove);
        if (preg_match('#^[a-z][a-z0-9+.-]+://#i', $dove) === 1 || !is_file($dove) || !is_readable($dove)) {
            throw self::errore("il file '$nome' non c'è o non si può leggere");
        }
        $resto -= (int) filesize($dove);
        if ($resto < 0) {
            throw self::errore('gli allegati insieme superano 20 MB', 'documento_troppo_grande');
        }
        $byte = @file_get_contents($dove);
        if ($byte === false) {
            throw self::errore("il file '$nome' non si può leggere");
        }
        return ['nome' => $nome, 'dati' => base64_encode($byte)];
    }

    private static function errore(string $messaggio, string $codice = 'documento_non_valido'): PepperException
    {
        return new PepperException($codice, $messaggio);
    }
}

/**
 * The three constants.
 *
 * @internal
 */
final class PepperProgetto
{
    public static function controlla(): void
    {
        foreach (['PEPPER_URL', 'PEPPER_PROGETTO', 'PEPPER_KEY'] as $costante) {
            if (!defined($costante) || !is_string(constant($costante)) || constant($costante) === '') {
                throw new PepperException('configurazione', "manca la costante $costante");
            }
        }
        if (preg_match('#^https?://[^\s/?\#]+[^\s?\#]*$#iD', PEPPER_URL) !== 1) {
            throw new PepperException('configurazione', 'PEPPER_URL deve essere un indirizzo, come https://gateway.example.it');
        }
        if (preg_match('/^[\x21-\x7e]+$/D', PEPPER_KEY) !== 1) {
            throw new PepperException('configurazione', 'PEPPER_KEY contiene spazi o caratteri che una chiave non ha');
        }
    }

    /** Gives the address all others stand under, whether PEPPER_URL is this or that of /api.php. */
    public static function base(): string
    {
        return rtrim((string) preg_replace('#/api\.php/*$#D', '', PEPPER_URL), '/');
    }
}

/**
 * The kept reply of capacita.php, for all processes of this user on this machine.
 *
 * @internal
 */
final class PepperCopia
{
    private const SECONDI = 86400;

    private string $file;

    public function __construct()
    {
        PepperProgetto::controlla();
        $nome = hash('sha256', PepperProgetto::base() . "\n" . PEPPER_PROGETTO);
        $this->file = sys_get_temp_dir() . "/pepper-capacita-$nome.json";
    }

    public function leggi(): ?array
    {
        clearstatcache(true, $this->file);
        if (!is_file($this->file) || is_link($this->file) || !is_readable($this->file) || !$this->nostra()) {
            return null;
        }
        $eta = time() - (int) @filemtime($this->file);
        if ($eta < 0 || $eta >= self::SECONDI) {
            return null;
        }
        $tenuta = json_decode((string) @file_get_contents($this->file), true);
        $vera = is_array($tenuta) && ($tenuta['ok'] ?? null) === true
            && ($tenuta['progetto'] ?? null) === PEPPER_PROGETTO;
        return $vera ? $tenuta : null;
    }

    /** Writes it whole or not at all; a copy that can't be kept is no harm. */
    public function scrivi(array $risposta): void
    {
        $nuovo = @tempnam(dirname($this->file), 'pepper');
        if ($nuovo === false) {
            return;
        }
        $testo = json_encode($risposta, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
        @chmod($nuovo, 0600);
        if ($testo === false || @file_put_contents($nuovo, $testo) !== strlen($testo) || !@rename($nuovo, $this->file)) {
            @unlink($nuovo);
        }
    }

    /** A folder that all users share may hold a file of that name which somebody else has put there. */
    private function nostra(): bool
    {
        if (DIRECTORY_SEPARATOR !== '/') {
            return true;
        }
        $utente = function_exists('posix_geteuid') ? posix_geteuid() : @fileowner($this->file);
        return @fileowner($this->file) === $utente && ((int) @fileperms($this->file) & 0777) === 0600;
    }
}
