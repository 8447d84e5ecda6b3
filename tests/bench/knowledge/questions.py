"""What is asked: in other words than the documents', with where the answer stands; and what no document answers."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """Why a question is hard."""

    PARAPHRASE = "paraphrase"
    TWIN = "one of two near-duplicates"
    TERM = "code or article"


class Question(msgspec.Struct, frozen=True):
    """One question; the right passage is the one of this document that holds this phrase."""

    text: str
    document: str
    phrase: str
    kind: Kind = Kind.PARAPHRASE


def _twin(text: str, document: str, phrase: str) -> Question:
    return Question(text, document, phrase, Kind.TWIN)


def _term(text: str, document: str, phrase: str) -> Question:
    return Question(text, document, phrase, Kind.TERM)


QUESTIONS = (
    Question(
        "Se viaggio con la mia macchina quanto mi danno di benzina?",
        "Rimborsi spese dei dipendenti",
        "0,42 euro",
    ),
    Question(
        "Ho perso la ricevuta del ristorante, che faccio?",
        "Rimborsi spese dei dipendenti",
        "Uno scontrino perso",
    ),
    Question(
        "Fino a che cifra mi pagano la camera quando dormo nella capitale?",
        "Rimborsi spese dei dipendenti",
        "180 a Milano",
    ),
    Question(
        "Mi hanno rubato la carta della ditta, come mi comporto?",
        "Rimborsi spese dei dipendenti",
        "si blocca subito",
    ),
    Question(
        "Posso lavorare due settimane dalla casa di mia sorella in Spagna?",
        "Ferie, permessi e lavoro da casa",
        "Dall'estero",
    ),
    Question(
        "Entro quando si consumano i giorni di vacanza avanzati dall'anno scorso?",
        "Ferie, permessi e lavoro da casa",
        "30 giugno dell'anno dopo",
    ),
    Question(
        "È morto mio nonno: quanti giorni posso assentarmi?", "Ferie, permessi e lavoro da casa", "lutto"
    ),
    Question(
        "A che ore può passare il medico fiscale?", "Ferie, permessi e lavoro da casa", "dalle 17 alle 19"
    ),
    Question("Ho un'auto a batteria, posso andare in centro?", "Zona a traffico limitato", "auto elettriche"),
    Question(
        "Mi è arrivata una contravvenzione perché avevo scritto male la targa",
        "Zona a traffico limitato",
        "sbagliato targa",
    ),
    Question(
        "Quanto pago se lascio l'auto nello stallo riservato agli invalidi?",
        "Zona a traffico limitato",
        "165 euro",
    ),
    Question("Parcheggiare dove ci sono le righe blu quanto costa?", "Zona a traffico limitato", "1,80 euro"),
    Question("Mio figlio è intollerante al glutine, cosa devo consegnare?", "Mensa scolastica", "celiachia"),
    Question(
        "Il bambino oggi non va a scuola: fino a che ora posso avvisare per non pagare il pranzo?",
        "Mensa scolastica",
        "9:15",
    ),
    Question("Che succede se non saldo gli arretrati dei pasti?", "Mensa scolastica", "debito superiore"),
    Question(
        "Chi può venire a controllare quello che mangiano gli alunni?", "Mensa scolastica", "comitato mensa"
    ),
    Question(
        "Devo buttare un vecchio materasso, potete venire a prenderlo?",
        "Tassa sui rifiuti",
        "ritirare sotto casa",
    ),
    Question("Abito da sola: pago meno per l'immondizia?", "Tassa sui rifiuti", "Chi vive solo"),
    Question("Che giorno passano per i giornali e gli scatoloni?", "Tassa sui rifiuti", "carta mercoledì"),
    Question("Dove metto l'olio con cui ho fritto le patate?", "Tassa sui rifiuti", "olio di frittura"),
    Question(
        "Quale impresa è stata scelta per rifare l'esterno del palazzo?",
        "Verbale assemblea 14 marzo",
        "Restauri Piave, con",
    ),
    Question("Perché non si è deciso sul fotovoltaico?", "Verbale assemblea 14 marzo", "sovrintendenza"),
    Question("Chi pulirà le scale quando il portiere se ne andrà?", "Verbale assemblea 14 marzo", "Petrov"),
    Question(
        "Il PC mi ha chiuso fuori perché ho sbagliato a digitare, chi chiamo?",
        "Guida per i nuovi assunti",
        "interno 2200",
    ),
    Question("Quando viene accreditata la paga?", "Guida per i nuovi assunti", "arriva il 27"),
    Question(
        "Un superiore mi importuna: come lo denuncio restando anonima?",
        "Guida per i nuovi assunti",
        "casella ascolto",
    ),
    Question(
        "Per quanto conservate i filmati della videosorveglianza?", "Informativa sulla privacy", "72 ore"
    ),
    Question(
        "Come faccio a non ricevere più offerte commerciali?",
        "Informativa sulla privacy",
        "opporvi alla pubblicità",
    ),
    Question(
        "In quale Paese si trovano i vostri computer con i miei dati?",
        "Informativa sulla privacy",
        "Germania",
    ),
    Question(
        "Ho cambiato idea sul maglione, posso mandarlo indietro?", "Condizioni di vendita", "cambiare idea"
    ),
    Question("Si può pagare alla consegna?", "Condizioni di vendita", "contrassegno"),
    Question(
        "Il telefono comprato l'anno scorso non si accende più", "Condizioni di vendita", "garanzia legale"
    ),
    Question(
        "La scatola che mi avete mandato era schiacciata e il vaso in pezzi",
        "Domande sulle spedizioni",
        "con riserva",
    ),
    Question(
        "Nessuno ha sentito il campanello del corriere, ora dov'è la mia roba?",
        "Domande sulle spedizioni",
        "punto di ritiro più vicino",
    ),
    Question(
        "Quando compro il frigo nuovo vi prendete quello usato?",
        "Domande sulle spedizioni",
        "vecchio elettrodomestico",
    ),
    Question("Mi serve per domani, è possibile?", "Domande sulle spedizioni", "Lampo"),
    Question(
        "Mia figlia ha avuto la varicella: quando può rientrare fra gli altri bimbi?",
        "Iscrizioni asilo nido",
        "malattie infettive",
    ),
    Question(
        "Finisco alle cinque e mezza, potete tenere il piccolo più a lungo?",
        "Iscrizioni asilo nido",
        "prolungamento fino alle 18",
    ),
    Question("La nonna può venire a prendere il bambino?", "Iscrizioni asilo nido", "delega scritta"),
    Question(
        "Ho accettato il posto ma ora non lo voglio più: ci rimetto qualcosa?",
        "Iscrizioni asilo nido",
        "una mensilità",
    ),
    Question(
        "Cosa uso per spegnere un incendio nel quadro della corrente?",
        "Piano di evacuazione",
        "anidride carbonica",
    ),
    Question("Un collega in carrozzina come viene messo in salvo?", "Piano di evacuazione", "spazio calmo"),
    Question("Dove ci dobbiamo ritrovare una volta fuori?", "Piano di evacuazione", "palazzina C"),
    Question(
        "Dove trovo la macchina per rianimare chi ha un arresto cardiaco?",
        "Piano di evacuazione",
        "defibrillatore",
    ),
    Question(
        "Vivo sulla spiaggia e la lavatrice si è arrugginita, la riparate gratis?",
        "Garanzia elettrodomestici Norda",
        "ruggine",
    ),
    Question(
        "Quanto costa allungare la copertura fino al quinto anno?",
        "Garanzia elettrodomestici Norda",
        "NordaPiù",
    ),
    Question(
        "A che età si può avere diritto di voto nella società sportiva?",
        "Statuto della polisportiva",
        "sedici anni",
    ),
    Question(
        "Se l'associazione chiude a chi vanno i soldi rimasti?",
        "Statuto della polisportiva",
        "Quel che resta",
    ),
    Question(
        "Mi sono rotto un dente in partita, chi paga il dentista?",
        "Statuto della polisportiva",
        "cure dentarie",
    ),
    Question("Non posso più venire all'appuntamento, come avviso?", "Ambulatorio prenotazioni", "Si disdice"),
    Question(
        "Prima del prelievo posso fare colazione?", "Ambulatorio prenotazioni", "digiuno da almeno otto ore"
    ),
    Question(
        "Mio marito può prendere i risultati al posto mio?", "Ambulatorio prenotazioni", "Può ritirarli"
    ),
    Question(
        "Posso accedere al programma insieme al mio commercialista?",
        "Fatture elettroniche",
        "non consuma una licenza",
    ),
    Question("Quando devo mettere la marca da due euro?", "Fatture elettroniche", "77,47"),
    Question(
        "Sono calvo, devo coprirmi la testa lo stesso?", "Regolamento della piscina", "Cuffia obbligatoria"
    ),
    Question(
        "Ho dimenticato l'asciugamano nell'armadietto, dove lo cerco?",
        "Regolamento della piscina",
        "oggetti smarriti",
    ),
    Question("Aspetto un bambino: ci sono lezioni adatte?", "Regolamento della piscina", "gravidanza"),
    Question("Quando si possono tagliare i rami?", "Capitolato del verde pubblico", "Le potature si fanno"),
    Question("È permesso usare il diserbante chimico?", "Capitolato del verde pubblico", "glifosate"),
    _twin(
        "Nel 2026 da che ora di sera non si può fare rumore in condominio?",
        "Regolamento condominiale 2026",
        "alle 8 nei giorni feriali",
    ),
    _twin(
        "Secondo il regolamento condominiale del 2025 quanto si paga al mese per lasciare l'auto in cortile?",
        "Regolamento condominiale 2025",
        "38 euro al mese",
    ),
    _twin(
        "Con le regole del 2026 quanto mi costa saldare in ritardo le spese di condominio?",
        "Regolamento condominiale 2026",
        "mora di 12 euro",
    ),
    _twin("Nel listino 2025 quanto veniva il trapano a batteria?", "Listino 2025", "205,00"),
    _twin("Che sconto hanno gli artigiani con i prezzi 2026?", "Listino 2026", "il 12 per cento"),
    _twin(
        "Qualcuno è bloccato nell'ascensore di via Foscolo: quanto ci mettono ad arrivare?",
        "Contratto ascensore via Foscolo",
        "entro 60 minuti",
    ),
    _twin(
        "Quanto tempo prima si deve scrivere per lasciare la ditta che segue l'elevatore di via Dante?",
        "Contratto ascensore via Dante",
        "tre mesi prima",
    ),
    _twin(
        "Con la polizza Plus sono protetto se c'è un sisma?",
        "Polizza Casa Plus",
        "Terremoto e alluvione sono compresi",
    ),
    _twin(
        "La polizza Base quanto rimborsa se i ladri portano via una collana?",
        "Polizza Casa Base",
        "gioielli e denaro fino a 500",
    ),
    _twin(
        "In biblioteca nel 2026 quanti volumi posso portare via alla volta?",
        "Carta dei servizi della biblioteca 2026",
        "otto libri",
    ),
    _twin(
        "Nel 2025 quanto costava una fotocopia colorata in biblioteca?",
        "Carta dei servizi della biblioteca 2025",
        "a colori 50",
    ),
    _twin(
        "Che reddito ISEE bisognava avere per il contributo affitti del 2025?", "Bando affitti 2025", "15.800"
    ),
    _twin(
        "Nel bando affitti 2026 quali nuclei numerosi passano davanti agli altri?",
        "Bando affitti 2026",
        "famiglie con tre",
    ),
    _twin(
        "Ogni quanto va analizzato lo scarico della Termax 32?",
        "Manuale caldaia Termax 32",
        "ogni quattro anni",
    ),
    _twin("Quanto pesa la caldaia Termax 24?", "Manuale caldaia Termax 24", "peso 33 kg"),
    _term("Prezzo 2026 di ART-4471/B?", "Listino 2026", "ART-4471/B"),
    _term("art-4471/c nel 2025", "Listino 2025", "ART-4471/C"),
    _term("Quanto costa il VT-M8-40 quest'anno, 2026?", "Listino 2026", "VT-M8-40"),
    _term("Il display mostra F37, cosa significa?", "Manuale caldaia Termax 32", "F37"),
    _term("La caldaia segna E16", "Manuale caldaia Termax 24", "E16"),
    _term("Scarto 00404: che devo fare?", "Fatture elettroniche", "00404"),
    _term("Quando si usa il tipo TD24?", "Fatture elettroniche", "TD24"),
    _term("A cosa serve il codice 2521?", "Fatture elettroniche", "2521"),
    _term("Che cosa dice l'articolo 12 dello statuto?", "Statuto della polisportiva", "Consiglio direttivo"),
    _term(
        "Cosa prevede l'art. 18 dello statuto della polisportiva?",
        "Statuto della polisportiva",
        "Scioglimento",
    ),
    _term(
        "Mi riassumi l'art. 3 del regolamento condominiale 2026?",
        "Regolamento condominiale 2026",
        "Art. 3 Animali",
    ),
    _term(
        "Articolo 6 del regolamento di condominio 2025",
        "Regolamento condominiale 2025",
        "72 euro la prima volta",
    ),
    _term("NR-22871 che pezzo è?", "Garanzia elettrodomestici Norda", "NR-22871"),
    _term("Dove leggo la matricola della NF-410?", "Garanzia elettrodomestici Norda", "NF-410"),
    _term("Di quale palazzo è il contratto MA-2298?", "Contratto ascensore via Foscolo", "MA-2298"),
    _term("Quanto costa il permesso R2?", "Zona a traffico limitato", "R2"),
)

OFF_TOPIC = (
    "Qual è la capitale dell'Australia?",
    "Come si prepara la carbonara?",
    "Chi ha vinto il mondiale di calcio del 1982?",
    "Scrivimi una poesia sulla luna in quattro versi",
    "Quanto fa 348 diviso 12?",
    "Traduci in inglese: domani piove",
    "Che differenza c'è fra un virus e un batterio?",
    "Spiegami la teoria della relatività in parole semplici",
    "Quanto dista la Terra da Marte?",
    "Consigliami un film giallo degli anni Settanta",
    "Come si dice grazie in giapponese?",
    "Qual è il miglior linguaggio di programmazione per iniziare?",
    "Chi ha dipinto la Gioconda?",
    "Perché il cielo è blu?",
    "Scrivi una funzione Python che ordina una lista",
    "Che tempo farà domani a Palermo?",
    "In che anno è caduto il muro di Berlino?",
    "Come si accorda una chitarra?",
    "Quali sono i sintomi della malaria?",
    "Dammi tre idee per un regalo di compleanno a un ragazzo di quindici anni",
    "Come si coltivano i pomodori sul balcone?",
    "Qual è il prezzo attuale del bitcoin?",
    "Chi era Giuseppe Garibaldi?",
    "Quanti abitanti ha la Cina?",
    "Ciao, come stai?",
    "Correggi questa frase: se avrei tempo verrei",
    "Quanto guadagna un pilota di linea?",
    "Come funziona un motore a scoppio?",
    "Raccontami una barzelletta",
    "Che cosa vuol dire la parola effimero?",
)
"""Nothing about these stands in any document."""
